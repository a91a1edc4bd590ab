#!/usr/bin/env python3
"""Quire beside llama.cpp and OpenVINO GenAI: the same work in turns, and how many times as fast we are as the best of them.

    bench/peers.py                                  everything, into docs/benchmarks.md
    bench/peers.py --rows decode,prefill --repeats 9
    bench/peers.py --report                         only the tables, from what was measured before

What was measured is kept in --results and resumed; Ctrl-C loses the round under way and nothing else. Peers are installed
outside the checkout by scripts/oracle_env.sh. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

from peer_report import document, plain, probes, ratios
from peer_results import Results, add_round, rounds
from peer_rows import GROUPS, LLAMA, OPENVINO, QUIRE, ROWS, TUNINGS, Contender, Row, Work, applicable, purpose
from peer_workers import Watch, Worker, WorkerError, first_token_ms

CHECKOUT = Path(__file__).resolve().parent.parent
SCRIPTS = {LLAMA: "peer_llama_cpp.py", OPENVINO: "peer_openvino.py"}
PROMPT = "The capital of France is"


def say(text: str) -> None:
    print(text, flush=True)


class Bench:
    """The workers, and the turns they take."""

    def __init__(self, args: argparse.Namespace, python: str):
        self.args = args
        self.models = {"smollm2": str(Path(args.model).absolute()), "gemma3": str(Path(args.gemma).absolute())}
        self.commands = {QUIRE: [args.worker]} | {engine: [python, str(CHECKOUT / "bench" / name)] for engine, name in SCRIPTS.items()}
        self.workers: dict[str, Worker] = {}
        self.results: Results | None = None

    def start(self) -> None:
        for engine, command in self.commands.items():
            self.workers[engine] = Worker(engine, command)
        self.results = Results.open(self.args.results, identity(self.args, self.versions()), self.args.fresh)
        now = datetime.datetime.now(datetime.timezone.utc)
        self.results.document |= {"date": now.strftime("%Y-%m-%d %H:%M UTC"), "command": " ".join(["bench/peers.py", *sys.argv[1:]])}

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()

    def versions(self) -> dict:
        return {name: version for worker in self.workers.values() for name, version in worker.versions["versions"].items()}

    def measure(self, contender: Contender, model: str, work: Work, settings: dict) -> float:
        request = {**work.request(), "model": self.models[model], "format": contender.format, "threads": self.args.threads, **settings}
        return self.workers[contender.engine].measure(request)

    def tune(self, row: Row) -> None:
        """Tries the peers' settings for a row's kind of work, unless that was done before."""
        for tuning in TUNINGS:
            key = f"{tuning.engine} {tuning.purpose}"
            # Where a prompt comes before, it is computed as prompts are best.
            wanted = tuning.purpose in (purpose(row.work), "prefill") and tuning.engine in {c.engine for c in row.contenders}
            if not wanted or key in self.results.tuned:
                continue
            contender = Contender(tuning.engine, tuning.format)
            tried = []
            for settings in tuning.candidates:
                attempt = {"settings": settings}
                try:
                    self.measure(contender, "smollm2", small(tuning.work), settings)
                    attempt["ms"] = min(self.measure(contender, "smollm2", tuning.work, settings) for _ in range(self.args.tune_repeats))
                    say(f"  {key}, {settings}: {tuning.work.tokens_per_second(attempt['ms']):,.1f} tokens/s")
                except WorkerError as error:
                    attempt["error"] = str(error)
                    say(f"  {key}, {settings}: {error}")
                tried.append(attempt)
            possible = [attempt for attempt in tried if "ms" in attempt]
            best = min(possible, key=lambda attempt: attempt["ms"])["settings"] if possible else {}
            self.workers[tuning.engine].measure({"kind": "forget"})
            self.results.tuned[key] = {"best": best, "tried": tried}
            self.results.save()

    def prepare(self, row: Row) -> tuple[list[Contender], dict]:
        """Loads and fills what the row needs, untimed; who cannot do it says why and is left out."""
        settings, errors = {}, {}
        for contender in row.contenders:
            try:
                with_these = applicable(self.results.tuned, contender, row.work)
                self.sample(row, contender, small(row.work), with_these)
                settings[contender.name] = with_these
            except WorkerError as error:
                errors[contender.name] = str(error)
                say(f"  {contender.name}: {error}")
        return [c for c in row.contenders if c.name in settings], self.results.row_of(row.name, settings, errors)

    def sample(self, row: Row, contender: Contender, work: Work, settings: dict):
        if work.kind == "probe":
            return self.probe(contender)
        if work.kind == "startup":
            return self.startup(row, contender)
        return self.measure(contender, row.model, work, settings)

    def probe(self, contender: Contender) -> list[float]:
        threads = str(self.args.threads)
        own = [self.args.quire, "bench", "-m", self.models["smollm2"], "-p", "16", "-n", "0", "-r", "1", "-t", threads, "--json"]
        command = own if contender.name == "quire bench" else [self.args.probe, threads]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise WorkerError(f"{command[0]} ended with status {done.returncode}: {done.stderr.strip()}")
        said = json.loads(done.stdout)
        speed = said.get("machine", said)
        return [speed["read_gbps"], speed["int8_gops"]]

    def startup(self, row: Row, contender: Contender) -> tuple[float, float]:
        model, threads = self.models[row.model], str(self.args.threads)
        if contender.engine == QUIRE:
            command = [self.args.quire, "run", "-m", model, "-p", PROMPT, "-n", "1", "--temp", "0", "-t", threads]
        else:
            command = [*self.commands[contender.engine], "--first-token", model, PROMPT, threads]
        whole, python = first_token_ms(command)
        return whole - python, whole

    def run(self, row: Row) -> None:
        if rounds(self.results.row(row.name)) >= self.args.repeats:
            say(f"{row.title}: there already")
            return
        say(f"{row.title}: preparing")
        if row.work.kind in ("prefill", "decode"):
            self.tune(row)
        ready, record = self.prepare(row)
        while ready and rounds(record) < self.args.repeats:
            number = rounds(record)
            turn = number % len(ready)
            watch = Watch(list(self.workers.values()))
            taken, whole = {}, {}
            for contender in ready[turn:] + ready[:turn]:
                settings = record["settings"][contender.name]
                got = watch.turn(contender.engine, lambda: self.sample(row, contender, row.work, settings))
                taken[contender.name], whole[contender.name] = got if isinstance(got, tuple) else (got, None)
            add_round(record, taken, **watch.report())
            for name, ms in whole.items():
                if ms is not None:
                    record["from_exec"].setdefault(name, []).append(ms)
            self.results.save()
            say(f"  round {number + 1} of {self.args.repeats}: " + ", ".join(f"{name} {spoken(row, got)}" for name, got in taken.items()))


def small(work: Work) -> Work:
    """The same with a few tokens: everything is loaded and computed up to there."""
    few = 64 if work.kind == "prefill" else 4
    return Work(work.kind, min(work.n, few), work.depth, work.batch, work.shared)


def spoken(row: Row, sample) -> str:
    if row.work.kind == "probe":
        return f"{sample[0]:.1f} GB/s {sample[1]:.0f} GOP/s"
    return f"{sample:.0f} ms" if row.shows_time else f"{row.work.tokens_per_second(sample):.1f}"


def cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def instructions() -> str:
    flags = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "").split()
    return ", ".join(name for flag, name in (("avx2", "AVX2"), ("avx512f", "AVX-512"), ("avx512_vnni", "VNNI"), ("avx512_bf16", "BF16")) if flag in flags)


def commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(CHECKOUT), *words], capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "include")
    return git("rev-parse", "--short=10", "HEAD") + (" and changes" if changed else "")


def identity(args: argparse.Namespace, versions: dict) -> dict:
    programs = hashlib.sha256(Path(args.worker).read_bytes() + Path(args.quire).read_bytes()).hexdigest()
    return {
        "machine": f"{cpu()}, {len(os.sched_getaffinity(0))} processors, {instructions()}", "threads": args.threads, "versions": versions,
        "models": {name: Path(path).name for name, path in (("smollm2", args.model), ("gemma3", args.gemma))},
        "quire": programs, "commit": commit(),
    }


def facts(results: Results) -> dict:
    known = results.document["identity"]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    named = ", ".join(f"{name} {version}" + (f" ({known['commit']})" if name == QUIRE else "") for name, version in known["versions"].items())
    return {
        "command": results.document["command"], "date": results.document["date"], "threads": known["threads"], "versions": named,
        "machine": f"{known['machine']}, {memory} GiB, Linux {platform.release()}", "models": ", ".join(known["models"].values()),
    }


def report(args: argparse.Namespace, results: Results) -> None:
    for lines in (ratios(results), probes(results)):
        if lines:
            say("\n" + plain(lines))
    if args.output and results.document["rows"]:
        Path(args.output).write_text(document(results, facts(results)), encoding="utf-8")
        say(f"\nwritten to {args.output}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(GROUPS), help=f"which work, of {', '.join(GROUPS)}, or of the names of single rows")
    parser.add_argument("--repeats", type=int, default=5, help="rounds in which everybody has a turn (default 5)")
    parser.add_argument("--tune-repeats", type=int, default=2, help="times that each setting of a peer is tried (default 2)")
    parser.add_argument("--threads", type=int, default=2, help="of each engine (default 2)")
    parser.add_argument("--model", default=str(CHECKOUT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--gemma", default=str(CHECKOUT / "models/gemma-3-270m-q4_k_m.gguf"))
    for name, program in (("quire", "quire"), ("worker", "quire_worker"), ("probe", "machine_probe")):
        parser.add_argument(f"--{name}", default=str(CHECKOUT / "build/release" / program))
    parser.add_argument("--python", help="interpreter that has the peers (default: what scripts/oracle_env.sh makes)")
    parser.add_argument("--results", type=Path, default=CHECKOUT / "build/peers.json", help="kept and resumed (default build/peers.json)")
    parser.add_argument("--fresh", action="store_true", help="begin anew")
    parser.add_argument("--report", action="store_true", help="measure nothing, write the tables")
    parser.add_argument("-o", "--output", default=str(CHECKOUT / "docs/benchmarks.md"), help="the document; '' for none")
    return parser.parse_args()


def chosen(names: str) -> list[Row]:
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in GROUPS and name not in {row.name for row in ROWS}]
    if unknown:
        sys.exit(f"peers: no rows '{unknown[0]}'; there are {', '.join(GROUPS)}")
    return [row for row in ROWS if row.group in wanted or row.name in wanted]


def peers_python() -> str:
    done = subprocess.run([str(CHECKOUT / "scripts/oracle_env.sh"), "peers"], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit("peers: scripts/oracle_env.sh could not install the peers")
    return done.stdout.strip().splitlines()[-1]


def main() -> int:
    args = parse()
    rows = chosen(args.rows)
    if args.report:
        if not args.results.exists():
            sys.exit(f"peers: {args.results} is not there; measure first")
        results = Results(args.results, {})
        results.document = json.loads(args.results.read_text(encoding="utf-8"))
        report(args, results)
        return 0
    for program in (args.quire, args.worker, args.probe):
        if not Path(program).exists():
            sys.exit(f"peers: {program} is not there; `make bench-peers` builds it")
    bench = Bench(args, args.python or peers_python())
    status = 0
    # Also where it runs in the background, or is ended by another program.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        bench.start()
        for row in rows:
            bench.run(row)
    except KeyboardInterrupt:
        say("\nstopped; what was measured is kept")
        status = 130
    except WorkerError as error:
        say(f"peers: {error}")
        status = 1
    finally:
        bench.close()
    if bench.results is None:
        return status
    report(args, bench.results)
    return status


if __name__ == "__main__":
    sys.exit(main())
