"""The servers that bench/serve.py measures, the clients it measures them with, and what the system says of a process."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

from peer_workers import machine_seconds, process_seconds

ROOT = Path(__file__).resolve().parent.parent


class Memory:
    """Resident bytes of a process, looked at four times a second."""

    def __init__(self, pid: int) -> None:
        self.samples: list[tuple[float, int]] = []
        self.pid, self.ended = pid, threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        begun = time.monotonic()
        while not self.ended.wait(0.25):
            try:
                pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
            except (FileNotFoundError, ProcessLookupError):
                return
            self.samples.append((time.monotonic() - begun, pages * os.sysconf("SC_PAGE_SIZE")))

    def stop(self) -> list[tuple[float, int]]:
        self.ended.set()
        self.thread.join()
        return self.samples


class Server:
    """A running server on a port of its own."""

    def __init__(self, name: str, command: list[str], log: Path, ready: str, start_seconds: float = 120) -> None:
        self.name, self.command, self.log = name, command, log
        print(" ".join(command), flush=True)
        with log.open("w") as to:
            self.process = subprocess.Popen(command, stdout=to, stderr=to)
        until = time.monotonic() + start_seconds
        while not (found := re.search(ready, self.text())):
            if self.process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise SystemExit(f"{name} did not start; its last words:\n{self.text()[-2000:]}")
            time.sleep(0.1)
        self.port = int(found.group(1))
        self.memory = Memory(self.process.pid)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def call(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def cpu_seconds(self) -> float:
        return process_seconds(self.process.pid)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.memory.stop()
        self.stop()


def quire(args, *options: str) -> Server:
    command = [args.quire, "serve", "-m", args.model, "--port", "0", "--cache-bytes", args.cache_bytes, *options]
    return Server("Quire", command, args.scratch / "quire.log", r"on http://[^ ]*:(\d+)")


def llama_server(args, program: str, slots: int) -> Server:
    """With all that makes it quick: a context for every slot, flash attention, prompts cached and reused, a thread for every client."""
    command = [program, "-m", args.model, "--host", "127.0.0.1", "--port", str(args.llama_port), "-np", str(slots), "-c", str(slots * 1280),
               "-t", str(args.threads), "-tb", str(args.threads), "-fa", "on", "--cache-prompt", "--cache-reuse", "32",
               "--threads-http", str(args.clients + 16), "--no-webui"]
    return Server(f"llama-server -np {slots}", command, args.scratch / f"llama-{slots}.log", r"listening on http://[^ ]*:(\d+)")


def load(args, server: Server, *options: str) -> dict:
    """What the clients saw, the processors' share of server and clients, and the server's memory meanwhile."""
    command = [args.client, "--port", str(server.port), "--system-file", str(args.scratch / "system.txt"), "--max-tokens", "64", *options]
    print(" ".join(command), flush=True)
    begun, cpu, (busy, stolen), seen = time.monotonic(), server.cpu_seconds(), machine_seconds(), len(server.memory.samples)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    result = json.loads(done.stdout)
    elapsed = time.monotonic() - begun
    used, (busy_now, stolen_now) = server.cpu_seconds() - cpu, machine_seconds()
    result["server_cpu_share"] = used / elapsed
    # Figures are worth little where much else ran.
    result["others_cpu_share"] = max(0.0, busy_now - busy - used - result["client_cpu_seconds"]) / elapsed
    result["stolen_share"] = (stolen_now - stolen) / elapsed
    result["memory"] = [bytes_ for _, bytes_ in server.memory.samples[seen:]]
    result["command"] = " ".join(Path(word).name if word.startswith("/") else word for word in command)
    result["server"] = " ".join(Path(word).name if word.startswith("/") else word for word in server.command)
    return result


def system_prompt(server: Server, tokens: int) -> str:
    """So many tokens of text that all requests begin with, by the server's own count."""
    things = ["ledger", "map", "letter", "deed", "census", "diary", "charter", "newspaper"]
    places = ["mill", "harbour", "school", "market", "chapel", "bridge", "station", "orchard", "quarry"]
    text = "You keep the archive of a small town and answer briefly."
    for shelf in range(1, tokens):
        more = f" Shelf {shelf} holds the {things[shelf * 5 % 8]} of the {places[shelf * 7 % 9]} from {1700 + shelf * 37 % 250}."
        _, counted = server.call("POST", "/tokenize", {"content": text + more})
        if len(json.loads(counted)["tokens"]) > tokens:
            break
        text += more
    return text


def cache_at_idle(server: Server) -> dict:
    """Pages and bytes in use once nothing runs, and what is cached once it was told to forget."""

    def state() -> dict:
        return json.loads(server.call("GET", "/v1/cache")[1])["models"][0]

    until = time.monotonic() + 60
    while (now := state())["running"] or now["waiting"]:
        if time.monotonic() > until:
            raise SystemExit(f"requests still run a minute after the last client left: {now}")
        time.sleep(0.02)
    server.call("DELETE", "/v1/cache")
    now = state()
    return {"open_pages": now["pages"]["open"], "sealed_pages": now["pages"]["sealed"],
            "bytes": now["bytes"]["used"] + now["bytes"]["cached"], "budget": now["bytes"]["budget"]}
