"""The tables of bench/peers.py, for the terminal and for docs/benchmarks.md."""

from __future__ import annotations

from statistics import median

from peer_results import Results, compare, figure, figures, rounds
from peer_rows import COMPARISONS, LLAMA, OPENVINO, QUIRE, ROWS, TUNINGS

BY_NAME = {row.name: row for row in ROWS}


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows]]


def plain(lines: list[str]) -> str:
    """A table of Markdown with its columns under each other."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("| ---")]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells)


def bar_text(comparison) -> str:
    if comparison.at_least is not None:
        return f"{comparison.at_least:g}"
    return f"under {comparison.at_most_ms:,.0f} ms" if comparison.at_most_ms is not None else "–"


def ratios(results: Results) -> list[str]:
    rows = []
    for comparison in COMPARISONS:
        record = results.measured(comparison.row)
        outcome = compare(record, comparison) if record else None
        if outcome is None:
            rows.append([comparison.title, "–", "–", "–", "–", bar_text(comparison), "not measured"])
            continue
        row = BY_NAME[comparison.row]
        reached = {True: "reached", False: "**not reached**", None: "–"}[outcome.reached(comparison)]
        rows.append([
            comparison.title, figure(row, outcome.ours_ms), f"{figure(row, outcome.best_ms)} ({outcome.best})", f"**{outcome.ratio:.2f}**",
            f"{outcome.least:.2f} to {outcome.most:.2f}", bar_text(comparison), reached,
        ])
    return table(["work", "Quire", "the best peer", "ratio", "of a round", "bar", ""], rows)


def all_figures(results: Results) -> list[str]:
    rows = []
    for row in ROWS:
        record = results.measured(row.name)
        if not record or row.work.kind == "probe":
            continue
        for contender in row.contenders:
            samples = record["samples"].get(contender.name)
            if samples:
                middle, spread = figures(row, samples)
                with_python = record["from_exec"].get(contender.name)
                note = f"{figure(row, median(with_python))} with the start of Python" if with_python and contender.engine != QUIRE else ""
                rows.append([row.title, contender.name, middle, spread, str(len(samples)), note])
            elif contender.name in record["errors"]:
                rows.append([row.title, contender.name, "–", "–", "0", record["errors"][contender.name].replace("|", "/")])
    return table(["work", "engine and cache", "median", "from the least to the most", "rounds", ""], rows) if rows else []


def settings_text(settings: dict) -> str:
    flat = {**{k: v for k, v in settings.items() if k != "properties"}, **settings.get("properties", {})}
    words = {True: "on", False: "off"}
    return ", ".join(f"{name} {words.get(value, value) if isinstance(value, bool) else value}" for name, value in flat.items()) or "as it comes"


def tunings(results: Results) -> list[str]:
    rows = []
    for tuning in TUNINGS:
        tried = results.tuned.get(f"{tuning.engine} {tuning.purpose}")
        if not tried:
            continue
        speeds = []
        for attempt in tried["tried"]:
            if "ms" not in attempt:
                speeds.append(f"{settings_text(attempt['settings'])}: {attempt['error']}")
                continue
            speed = f"{settings_text(attempt['settings'])}: {tuning.work.tokens_per_second(attempt['ms']):,.1f}"
            speeds.append(f"**{speed}**" if attempt["settings"] == tried["best"] else speed)
        work = f"{tuning.work.kind} {tuning.work.n:,}" + (f" at depth {tuning.work.depth:,}" if tuning.work.depth else "")
        rows.append([tuning.engine, tuning.purpose, f"{work}, {tuning.format}", "; ".join(speeds).replace("|", "/")])
    return table(["peer", "for", "tried on", "settings and tokens a second, **the one used**"], rows) if rows else []


def probes(results: Results) -> list[str]:
    record = results.measured("probe")
    if not record:
        return []
    rows = []
    for i, what in enumerate(("read, GB/s", "int8, GOP/s")):
        first, second = ([sample[i] for sample in record["samples"][name]] for name in ("quire bench", "second probe"))
        apart = abs(median(first) / median(second) - 1)
        spreads = [f"{median(s):,.1f} ({min(s):,.1f} to {max(s):,.1f})" for s in (first, second)]
        rows.append([what, *spreads, f"{100 * apart:.1f} %", "5 %", "reached" if apart <= 0.05 else "**not reached**"])
    return table(["", "quire bench", "second probe", "apart", "at most", ""], rows)


def quiet(results: Results) -> list[str]:
    """How much of the machine's time went elsewhere."""
    rows = []
    for row in ROWS:
        record = results.measured(row.name)
        if record:
            idle = ", ".join(f"{engine} {100 * share:.1f} %" for engine, share in record["idle"].items()) or "–"
            shares = [f"{100 * record[key]:.1f} %" for key in ("others", "stolen")]
            rows.append([row.title, str(rounds(record)), f"{record['seconds']:.0f}", *shares, idle])
    return table(["work", "rounds", "seconds", "other processes", "stolen by the hypervisor", "engines that were to wait, at most"], rows)


def document(results: Results, facts: dict) -> str:
    """docs/benchmarks.md; facts says with what it was measured."""
    bars = [c for c in COMPARISONS if c.at_least is not None or c.at_most_ms is not None]
    outcomes = [(c, compare(record, c)) for c in bars if (record := results.measured(c.row))]
    judged = [outcome.reached(c) for c, outcome in outcomes if outcome]
    lines = [
        "# Quire beside its peers",
        "",
        f"Written by `{facts['command']}`, {facts['date']}, on {facts['machine']}: {facts['versions']}.",
        f"Every engine has {facts['threads']} threads. Models: {facts['models']}. Nothing here is edited by hand.",
        "",
        f"Of {len(bars)} bars {sum(judged)} were reached, {len(judged) - sum(judged)} were not, and {len(bars) - len(judged)} were not measured.",
        "",
        "## Ratios",
        "",
        "Tokens a second, or milliseconds where they are named. *Ratio*: how many times as fast Quire is as the best of the peers named in",
        "the row, by medians; *of a round*: the least and the most of the same ratio taken turn by turn. Ratios above 1 are Quire's.",
        "",
        *ratios(results),
        "",
        "## What was measured",
        "",
        "Engines take turns: a round is one sample of everybody, and the order shifts from round to round. Each is a process of its own that",
        "loads once and waits; one computes at a time. Prompts and answers are made-up tokens, the same number for all.",
        "",
        f"- {QUIRE} (`bench/quire_worker.cpp`) measures with the code of `quire bench`, which also checks what it timed.",
        f"- {LLAMA} (`bench/peer_llama_cpp.py`): its C interface, compiled for this processor; `llama_decode` until the logits are there, nothing",
        "  sampled. Sixteen sequences share the prefix by `llama_memory_seq_cp`.",
        f"- {OPENVINO} (`bench/peer_openvino.py`) reads the same file; steps of its continuous batching, its cache of prefixes on, its choice of the",
        "  likeliest token included. The prefix of 2,048 and the 4,032 cached tokens are found in that cache.",
        "- From exec to the first token: of peers without the start of Python and its packages, which is shown beside it below.",
        "- Quire's q8 and q4 are its 8- and 4-bit caches, q8_0 and q4_0 llama.cpp's, u8 and u4 OpenVINO's.",
        "",
        "## All figures",
        "",
        *all_figures(results),
        "",
        "## Settings of the peers",
        "",
        "Each was tried once or twice before anything was measured, on the work named; the fastest is used for all work of its kind. Quantised",
        "values need flash attention in llama.cpp. A few tries on one work can mislead: where a peer's 8- or 4-bit cache beats its own f16 above,",
        "another setting may have suited its f16 better, and the ratio to it alone is too kind to Quire.",
        "",
        *tunings(results),
        "",
        "## What the machine can do, measured twice",
        "",
        "`quire bench` measures reading and 8-bit products before it measures anything else. `bench/machine_probe.cpp` shares no code with it and",
        "goes about it another way: memory of each thread's own in six streams at once, and a small matrix product in the first-level cache.",
        "",
        *probes(results),
        "",
        "## How quiet it was",
        "",
        "Shares of the machine's time that went to processes other than these, or to other guests of the same host; of a processor's time for",
        "engines that were to wait while another was measured.",
        "",
        *quiet(results),
        "",
    ]
    return "\n".join(lines)
