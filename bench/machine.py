#!/usr/bin/env python3
"""How near Quire comes to what the machine can do: fractions of the memory bus and of 8-bit products, what windows, depths and
threads do to a step, what determinism and rounding cost.

    bench/machine.py -o docs/machine.md [--text FILE]

Ends with an error where a bar was missed; the tables are written all the same, and say so.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from engine import machine, table  # noqa: E402
from quire_program import quire_json, version  # noqa: E402

MISSED = 3
DEPTHS = (0, 2048, 7680)
BUS_BARS = {"f16": 0.70, "q8": 0.60, "q4": 0.60}
STEADY, STEADY_TRIES = 0.10, 4
LINE_DEPTHS = tuple(range(0, 7681, 960))


class Measured:
    """Runs of `quire bench`, each of which measures the machine first."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.missed: list[str] = []

    def bench(self, *options: str) -> tuple[dict, list[dict]]:
        print("quire bench", *options, flush=True)
        report = quire_json(self.args.quire, self.args.model, "bench", *options)
        return report["machine"], report["runs"]

    def steady(self, *options: str) -> dict:
        """One piece of work between two looks at the machine that agree: a host that moves processors about changes both what it
        reads and what it multiplies, by half and more. The pair that agrees best where none does within a tenth."""
        best = None
        for _ in range(STEADY_TRIES):
            before, (run,) = self.bench(*options)
            after, _ = self.bench("-p", "16", "-n", "0", "-r", "1")
            bound = "int8_gops" if run["kind"] == "prefill" else "read_gbps"
            apart = abs(after[bound] / before[bound] - 1)
            fraction = run["roofline_fraction"] * before[bound] / statistics.mean((before[bound], after[bound]))
            if best is None or apart < best[0]:
                best = (apart, {**run, "roofline_fraction": fraction, "apart": apart})
            if best[0] <= STEADY:
                break
        return best[1]

    def repeated(self, *options: str) -> dict:
        """Each figure the median over all repeats."""
        same = [self.steady(*options) for _ in range(self.args.repeats)]
        figures = {key: statistics.median(run[key] for run in same) for key in ("median_ms", "tokens_per_second", "roofline_fraction")}
        spread = [run["roofline_fraction"] for run in same]
        return {**same[0], **figures, "least": min(spread), "most": max(spread), "apart": max(run["apart"] for run in same)}

    def verdict(self, what: str, met: bool) -> str:
        if not met:
            self.missed.append(what)
        return "reached" if met else "**not reached**"


def fractions(measured: Measured) -> list[str]:
    rows = []

    def add(what: str, bar: float, of: str, *options: str) -> None:
        run = measured.repeated(*options)
        met = measured.verdict(what, run["roofline_fraction"] >= bar)
        rows.append([what, f"{run['median_ms']:.2f}", f"{run['tokens_per_second']:.0f}", f"**{run['roofline_fraction']:.0%}** of {of}",
                     f"{run['least']:.0%} to {run['most']:.0%}", f"{run['apart']:.0%}", f"{bar:.0%}", met])

    for kind, bar in BUS_BARS.items():
        for depth in DEPTHS:
            add(f"decode, depth {depth:,}, {kind}", bar, "the bus", "-p", "0", "-n", "64", "-d", str(depth), "-r", "5", "-ctk", kind, "-ctv", kind)
    add("prefill 512", 0.45, "int8", "-p", "512", "-n", "0", "-r", "9")
    return ["## Of what the machine can do", "",
            "Bytes read are those of the file's tensors and of the cache. Reading and 8-bit products are measured before and after each run, and a",
            f"run counts only if both agree within {STEADY:.0%}, or if none of {STEADY_TRIES} did; *apart* is how far they were at most.",
            "", *table(["work", "ms", "tokens a second", "fraction", "from the least to the most", "apart", "bar", ""], rows), ""]


def window(measured: Measured) -> list[str]:
    # In turns, so that a machine that grows slower does it to both.
    near, far = [], []
    for _ in range(measured.args.repeats):
        for depth, to in ((1500, near), (30000, far)):
            _, (run,) = measured.bench("-p", "0", "-n", "64", "-d", str(depth), "-r", "3", "--cache-policy", "window:1024")
            to.append(run["median_ms"])
    ratio = statistics.median(far) / statistics.median(near)
    met = measured.verdict("a window costs the same far on", abs(ratio - 1) <= 0.05)
    return ["## A window of 1,024", "",
            f"A step takes {statistics.median(near):.2f} ms at position 1,500 and {statistics.median(far):.2f} ms at position 30,000: "
            f"**{ratio:.3f}** times (bar: within 5 %), {met}.", ""]


def line(measured: Measured) -> list[str]:
    options = ("-p", "0", "-n", "64", "-d", ",".join(map(str, LINE_DEPTHS)), "-r", "3")
    every = [measured.bench(*options)[1] for _ in range(measured.args.repeats)]
    depths = [run["depth"] for run in every[0]]
    ms = [statistics.median(run["median_ms"] for run in same) for same in zip(*every)]
    slope, start = statistics.linear_regression(depths, ms)
    squared = statistics.correlation(depths, ms) ** 2
    met = measured.verdict("decode time grows linearly with depth", squared >= 0.98)
    rows = [[f"{d:,}", f"{t:.2f}", f"{start + slope * d:.2f}"] for d, t in zip(depths, ms)]
    return ["## A step grows linearly with depth", "",
            f"f16: {start:.2f} ms + {slope * 1e3:.3f} ms for every 1,000 tokens; R² **{squared:.4f}** (bar: 0.98), {met}.", "",
            *table(["depth", "ms", "on the line"], rows), ""]


def threads(measured: Measured) -> list[str]:
    rows = []
    works = {"prefill 512": ("-p", "512", "-n", "0", "-r", "5"),
             "decode, depth 0, f16": ("-p", "0", "-n", "64", "-r", "3"),
             "decode, depth 7,680, q8": ("-p", "0", "-n", "32", "-d", "7680", "-r", "3", "-ctk", "q8", "-ctv", "q8")}
    for what, options in works.items():
        one, two, bus = [], [], []
        for _ in range(measured.args.repeats):
            for count, to in ((1, one), (2, two)):
                machine_speed, (run,) = measured.bench(*options, "-t", str(count))
                to.append(run["median_ms"])
                bus.append((count, machine_speed["read_gbps"]))
        ratio = statistics.median(one) / statistics.median(two)
        allowed = statistics.median(s for c, s in bus if c == 2) / statistics.median(s for c, s in bus if c == 1)
        at_bus = what.startswith("decode")
        met = measured.verdict(f"two threads, {what}", ratio >= min(1.7, allowed if at_bus else 2))
        rows.append([what, f"{statistics.median(one):.1f}", f"{statistics.median(two):.1f}", f"**{ratio:.2f}**", f"{allowed:.2f}" if at_bus else "–", met])
    return ["## Two threads", "",
            "Bar: 1.7 times one, where the bus allows: for decode, the least of that and of what two threads read beside one.", "",
            *table(["work", "one, ms", "two, ms", "times", "the bus allows", ""], rows), ""]


def determinism(measured: Measured) -> list[str]:
    """Answers multiply as prompts do, in bytes where that pays for many rows; alone they might as well multiply floats."""
    rows = []
    for kind in BUS_BARS:
        steps: dict[str, list[float]] = {"bf16": [], "vnni": []}
        for _ in range(measured.args.repeats):
            for kernels, to in steps.items():
                _, (run,) = measured.bench("-p", "0", "-n", "32", "-d", "7680", "-r", "3", "-ctk", kind, "-ctv", kind, "--kernels", kernels)
                to.append(run["median_ms"])
        ours, floats = (statistics.median(steps[kernels]) for kernels in ("bf16", "vnni"))
        rows.append([kind, f"{ours:.2f}", f"{floats:.2f}", f"{max(ours / floats - 1, 0):.1%}"])
    return ["## What determinism costs", "",
            "An answer's tokens have the same bits however a prompt was cut, on any number of threads, alone or among others. So a step must multiply",
            "as prompts do, where one row alone could choose what is fastest for it; and its parts are cut at fixed positions, every 512 or 1,024 tokens.",
            "", *table(["cache, depth 7,680", "as prompts do, ms", "in floats, ms", "cost"], rows), ""]


def rounding(measured: Measured) -> list[str]:
    if measured.args.text is None:
        return []
    found = {}
    for kernels in ("exact", "auto"):
        print("quire perplexity --kernels", kernels, flush=True)
        options = ("-f", measured.args.text, "--chunks", str(measured.args.chunks), "-c", "1024", "--kernels", kernels)
        found[kernels] = quire_json(measured.args.quire, measured.args.model, "perplexity", *options)["perplexity"]
    growth = found["auto"] / found["exact"] - 1
    met = measured.verdict("perplexity", abs(growth) <= 0.005)
    return ["## What rounding costs", "",
            f"Perplexity over {measured.args.chunks} chunks of 1,024 tokens: {found['auto']:.4f} with the fastest kernels, {found['exact']:.4f} with exact ones: "
            f"**{growth:+.2%}** (bar: 0.5 %), {met}.", ""]


def main() -> None:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", default=str(root / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--quire", default=str(root / "build/release/quire"))
    parser.add_argument("--repeats", type=int, default=3, help="of every process (default 3)")
    parser.add_argument("--text", help="to measure perplexity on; without it that part is left out")
    parser.add_argument("--chunks", type=int, default=12, help="of 1,024 tokens (default 12)")
    parser.add_argument("-o", "--output", required=True)
    args = parser.parse_args()
    measured = Measured(args)
    speed, _ = measured.bench("-p", "16", "-n", "0", "-r", "1")
    parts = [part(measured) for part in (fractions, window, line, threads, determinism, rounding)]
    told = f"`bench/machine.py --repeats {args.repeats}`, {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC, on {machine()}"
    head = ["# Quire beside the machine", "",
            f"Written by {told}: {version(args.quire)}, {speed['kernels']} kernels, {Path(args.model).name}. The machine reads "
            f"{speed['read_gbps']:.1f} GB/s and does {speed['int8_gops']:.0f} GOP/s in int8. Figures are medians. Nothing here is edited by hand.", ""]
    Path(args.output).write_text("\n".join([*head, *(text for part in parts for text in part)]).rstrip() + "\n")
    if measured.missed:
        print("not reached: " + "; ".join(measured.missed), file=sys.stderr)
        sys.exit(MISSED)


if __name__ == "__main__":
    main()
