#!/usr/bin/env python3
"""`quire serve` under load: many streaming clients beside llama.cpp's server with the same clients, more requests than it can answer,
a thousand open streams, slow clients and clients that leave.

    bench/serve.py -o docs/serving.md [--only load llama overload streams slow leavers]

What was measured is kept (--results), so that parts can be measured at different times; the document has all there are.
Ends with an error where a bar was missed; the tables are written all the same, and say so.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import serve_report  # noqa: E402
from engine import machine  # noqa: E402
from quire_program import version  # noqa: E402
from serve_programs import ROOT, Server, cache_at_idle, llama_server, load, quire, system_prompt  # noqa: E402

MISSED = 3


def prepared(args: argparse.Namespace, server: Server) -> Server:
    """The text that all requests share is the same for every server and part."""
    path = args.scratch / "system.txt"
    if not path.exists():
        path.write_text(system_prompt(server, 1000))
    return server


def measure_load(args: argparse.Namespace, _: dict) -> dict:
    with quire(args) as server:
        result = load(args, prepared(args, server), "--clients", str(args.clients), "--seconds", str(args.seconds))
        result["idle"] = cache_at_idle(server)
        return result


def measure_llama(args: argparse.Namespace, results: dict) -> dict:
    program = subprocess.run([ROOT / "scripts/llama_server.sh"], stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")[-2]
    found = results.get("llama", {})  # other numbers of slots, measured before

    def run(slots: int, seconds: float) -> dict:
        with llama_server(args, program, slots) as server:
            return load(args, prepared(args, server), "--clients", str(args.clients), "--seconds", str(seconds), "--stop-at-end")

    for slots in args.slots:
        found[str(slots)] = run(slots, args.seconds)
    if args.llama_seconds > args.seconds:  # once every slot has computed the shared prompt
        best = max(args.slots, key=lambda slots: found[str(slots)]["tokens_per_second"])
        found["longer"] = {**run(best, args.llama_seconds), "slots": best}
    return {**found, "version": (Path(program).parents[2] / "version").read_text().strip()}


def server_times(server: Server, statuses: tuple[str, ...]) -> list[float]:
    """Milliseconds of the requests that ended so, from the last byte read to the last one written, by the server's log."""
    line = re.compile(r"^\S+ \S+ \S+ (\d+) ([\d.]+) ms,", re.MULTILINE)
    return sorted(float(ms) for status, ms in line.findall(server.text()) if status in statuses)


def measure_overload(args: argparse.Namespace, results: dict) -> dict:
    """Requests come ten times as fast as the load part saw them answered, whatever becomes of them."""
    if "load" not in results:
        raise SystemExit("overload needs to know what the server can do: measure the load part first")
    rate = 10 * results["load"]["tokens_per_second"] / 64
    with quire(args, "--max-queue", str(args.queue)) as server:
        result = load(args, prepared(args, server), "--rate", f"{rate:.1f}", "--seconds", str(args.overload_seconds), "--timeout", "300")
        times = server_times(server, ("429", "503"))
        result["rate"] = rate
        result["server_refusal_ms"] = {"count": len(times), "p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100], "most": times[-1]} if times else None
        result["idle"] = cache_at_idle(server)
        return result


def measure_streams(args: argparse.Namespace, _: dict) -> dict:
    with quire(args, "--http-threads", "8") as server:
        most, ended = {"together": 0, "running": 0}, threading.Event()

        def look() -> None:
            while not ended.wait(0.2):
                now = json.loads(server.call("GET", "/v1/cache")[1])["models"][0]
                most["together"] = max(most["together"], now["running"] + now["waiting"])
                most["running"] = max(most["running"], now["running"])

        prepared(args, server)
        looking = threading.Thread(target=look)
        looking.start()
        result = load(args, server, "--clients", str(args.streams), "--requests", str(args.streams), "--seconds", "600")
        ended.set()
        looking.join()
        return {**result, **most, "idle": cache_at_idle(server)}


ATTACKS = {"headers that never end": ["-H", "-i", "5"], "bodies that never end": ["-B", "-i", "5", "-s", "8192", "-t", "POST"],
           "answers read slowly": ["-X", "-w", "1", "-y", "16", "-n", "5", "-z", "1"]}


def measure_slow(args: argparse.Namespace, _: dict) -> dict:
    if shutil.which("slowhttptest") is None:
        raise SystemExit("slowhttptest is not there; on Debian and Ubuntu: apt install slowhttptest")
    found = {}
    with quire(args) as server:
        prepared(args, server)
        others = ["--clients", "16", "--seconds", str(args.slow_seconds)]
        load(args, server, "--clients", "16", "--seconds", "5")  # the shared prompt is there for all
        found["without"] = load(args, server, *others)

        def beside(options: list[str]) -> dict:
            path = "/v1/chat/completions" if "-B" in options else "/ui/chart.js" if "-X" in options else "/"
            command = ["slowhttptest", "-c", "1000", "-r", "500", "-l", str(args.slow_seconds + 10), "-u", f"http://127.0.0.1:{server.port}{path}", *options]
            print(" ".join(command), flush=True)
            attack = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(3)
            result = load(args, server, *others)
            result["attacker_sockets"] = len(os.listdir(f"/proc/{attack.pid}/fd")) if attack.poll() is None else 0
            attack.terminate()
            attack.wait()
            return {**result, "attack": " ".join(["slowhttptest", *options])}

        for name, options in ATTACKS.items():
            found[name] = beside(options)
        found["without, again"] = load(args, server, *others)
        found["idle"] = cache_at_idle(server)
    return found


def measure_leavers(args: argparse.Namespace, _: dict) -> dict:
    environment = {**os.environ, "QUIRE_BIN": args.quire, "QUIRE_MODEL": args.model, "QUIRE_LEAVERS": str(args.leavers)}
    command = ["sh", str(ROOT / "tests/server/run.sh"), "-s", "-k", "pages_of_clients_that_leave"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    said = re.search(r"^(\d+) clients left; p50 (\d+) ms, p99 (\d+) ms, most (\d+) ms", done.stdout, re.MULTILINE)
    if said is None:
        raise SystemExit(f"{' '.join(command)} did not say how it went:\n{done.stdout[-2000:]}")
    return {"passed": done.returncode == 0, **dict(zip(("clients", "p50", "p99", "most"), map(int, said.groups())))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"load": measure_load, "llama": measure_llama, "overload": measure_overload, "streams": measure_streams, "slow": measure_slow,
             "leavers": measure_leavers}
    parser.add_argument("--only", nargs="+", choices=list(parts), default=list(parts))
    parser.add_argument("-o", "--output", default=str(ROOT / "docs/serving.md"))
    parser.add_argument("--results", type=Path, default=ROOT / "build/serve.json")
    parser.add_argument("-m", "--model", default=str(ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--quire", default=str(ROOT / "build/release/quire"))
    parser.add_argument("--client", default=str(ROOT / "build/release/load_client"))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of llama-server (default: all; Quire takes all)")
    parser.add_argument("--clients", type=int, default=256, help="of the load (default 256)")
    parser.add_argument("--seconds", type=float, default=120, help="of the load on either server (default 120)")
    parser.add_argument("--llama-seconds", type=float, default=300, help="of a longer one on llama-server with its best number of slots (default 300)")
    parser.add_argument("--slots", type=int, nargs="+", default=[16, 64], help="of llama-server (default 16 64)")
    parser.add_argument("--llama-port", type=int, default=18480)
    parser.add_argument("--overload-seconds", type=float, default=60)
    parser.add_argument("--queue", type=int, default=256, help="--max-queue while there is too much to do (default 256)")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--slow-seconds", type=float, default=20)
    parser.add_argument("--leavers", type=int, default=1000)
    parser.add_argument("--cache-bytes", default="512M", help="of Quire (default 512M: full early on, so that memory can be seen to stay)")
    args = parser.parse_args()
    args.scratch = args.results.parent / "serve"
    args.scratch.mkdir(parents=True, exist_ok=True)
    results = json.loads(args.results.read_text()) if args.results.exists() else {}
    for name in args.only:
        measured = parts[name](args, results)
        measured["when"] = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC"
        measured["quire"] = version(args.quire)
        measured["machine"] = machine()
        results[name] = measured
        args.results.write_text(json.dumps(results, indent=1) + "\n")
    document, missed = serve_report.document(results, Path(args.model).name)
    Path(args.output).write_text(document)
    if missed:
        print("not reached: " + "; ".join(missed), file=sys.stderr)
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
