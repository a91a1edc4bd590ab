"""The processes that bench/peers.py has computing: each keeps what it loaded, and only the one that is asked works."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


class WorkerError(Exception):
    """What an engine could not do, in its own words."""


class Worker:
    """A process that answers a line of JSON with a line of JSON."""

    def __init__(self, engine: str, command: list[str]):
        self.engine = engine
        self.complaints = tempfile.TemporaryFile("w+", errors="replace")
        # A session of its own: Ctrl-C is for the script, which keeps what was measured and then ends its workers.
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.complaints, text=True, start_new_session=True
        )
        self.versions: dict = self._answer()

    def _answer(self) -> dict:
        # Libraries may write to standard output too; answers are objects.
        for line in self.process.stdout:
            if line.startswith("{"):
                answer = json.loads(line)
                if "error" in answer:
                    raise WorkerError(one_line(answer["error"]))
                return answer
        status = self.process.wait()
        self.complaints.seek(0)
        raise WorkerError(f"{self.engine}'s process ended with status {status}: {one_line(self.complaints.read())}")

    def measure(self, request: dict) -> float:
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(f"{self.engine}'s process is gone") from None
        return float(self._answer()["ms"])

    def cpu_seconds(self) -> float:
        return process_seconds(self.process.pid)

    def close(self) -> None:
        try:
            self.process.stdin.close()
            self.process.wait(timeout=10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.complaints.close()


def one_line(text: str) -> str:
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    # Exceptions of OpenVINO begin with where they were thrown and end with what went wrong.
    return (lines[-1] if lines else "no reason given")[:200]


def process_seconds(pid: int) -> float:
    """Processor time that a process has had, all its threads together."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def machine_seconds(stat: str | None = None) -> tuple[float, float]:
    """Processor time that anybody has had, and time that the hypervisor gave to others."""
    fields = (stat or Path("/proc/stat").read_text()).split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, irq, softirq, steal = (int(field) / TICKS for field in fields[:8])
    return user + nice + system + irq + softirq, steal


class Watch:
    """Who used the machine while something was measured."""

    def __init__(self, workers: list[Worker]):
        self.workers = workers
        self.begin = time.monotonic()
        self.busy, self.stolen = machine_seconds()
        self.ours = self._ours()
        self.idle: dict[str, tuple[float, float]] = {}  # processor seconds of an engine while it was to wait, and how long

    def _ours(self) -> float:
        times = os.times()
        own = times.user + times.system + times.children_user + times.children_system
        return own + sum(worker.cpu_seconds() for worker in self.workers)

    def turn(self, engine: str, action):
        """Does what only this engine is to work for."""
        waiting = [(worker, worker.cpu_seconds()) for worker in self.workers if worker.engine != engine]
        begin = time.monotonic()
        result = action()
        seconds = time.monotonic() - begin
        for worker, before in waiting:
            used, waited = self.idle.get(worker.engine, (0.0, 0.0))
            self.idle[worker.engine] = (used + worker.cpu_seconds() - before, waited + seconds)
        return result

    def report(self) -> dict:
        seconds = max(time.monotonic() - self.begin, 1e-9)
        busy, stolen = machine_seconds()
        machine = seconds * (os.cpu_count() or 1)
        others = (busy - self.busy) - (self._ours() - self.ours)
        return {
            "seconds": seconds,
            "others": max(others, 0.0) / machine,
            "stolen": (stolen - self.stolen) / machine,
            "idle": {engine: used / waited for engine, (used, waited) in self.idle.items() if waited > 0},
        }


def first_token_ms(command: list[str]) -> tuple[float, float]:
    """Milliseconds from exec until a program says that it has its first token, and those of it that were Python's own."""
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        said = process.stdout.read(1)
        elapsed = (time.monotonic() - begin) * 1e3
        said += process.stdout.read()
    if process.returncode != 0 or not said:
        raise WorkerError(f"{command[0]} ended with status {process.returncode} and no token")
    # Peers end by saying when Python and their packages were there, on the same clock.
    for line in said.decode(errors="replace").splitlines():
        if line.startswith('{"imported":'):
            return elapsed, (json.loads(line)["imported"] - begin) * 1e3
    return elapsed, 0.0
