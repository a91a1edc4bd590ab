#!/usr/bin/env python3
"""docs/experiments.md from what `quire lab all` measured: every finding, and five questions answered from the numbers.

    build/quire lab all -o build/lab
    scripts/experiments.py build/lab/results.json -o docs/experiments.md
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path

QUESTIONS = [
    ("How did tokens per second change with the prompt, and where does the cache become required?", ["speed"]),
    ("What of the cache's memory grows, what stays fixed, and does the formula hold?", ["memory"]),
    ("What fails first as a window shrinks?", ["window", "sinks"]),
    ("How soon does a corrupted key show, and why does the model not recover?", ["break"]),
    ("What does the cache trade, and what is the next bottleneck?", ["flops", "latency"]),
]


def wrapped(text: str, first: str = "", rest: str = "") -> str:
    return textwrap.fill(text, 120, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)


def table(description: dict) -> list[str]:
    cells = [description["columns"], *description["rows"]]
    lines = ["| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in cells]
    lines.insert(1, "| " + " | ".join("---" for _ in description["columns"]) + " |")
    return [wrapped(description["title"] + ":"), "", *lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    results = json.loads(args.results.read_text(encoding="utf-8"))
    conditions = results["conditions"]
    known = {e["name"]: e for e in results["experiments"]}

    lines = ["# What the experiments showed", ""]
    lines += [wrapped(
        f"Written by `scripts/experiments.py` from what `quire lab all{' --quick' if conditions['quick'] else ''}` measured: "
        f"{conditions['model']} on {conditions['machine']}; text: {conditions['text']}; Quire {conditions['version']}. "
        f"Together {sum(e['seconds'] for e in known.values()) / 60:.0f} minutes. The same command draws it as a page with charts "
        "(`report.html`)."), ""]
    lines += ["## Five questions", ""]
    number = 0
    for question, sources in QUESTIONS:
        answers = [f for s in sources if s in known for f in known[s]["findings"]]
        if not answers:
            continue
        number += 1
        lines += [wrapped(f"**{question}**", f"{number}. ", "   "), ""]
        lines += [wrapped(" ".join(answers), "   ", "   "), ""]
    lines += ["## Every experiment", ""]
    answered = {s for _, sources in QUESTIONS for s in sources}
    for experiment in results["experiments"]:
        lines += [f"### `{experiment['name']}`: {experiment['title']}", "", wrapped(experiment["question"]), ""]
        if experiment["name"] not in answered:
            lines += [wrapped(f, "- ", "  ") for f in experiment["findings"]] + [""]
        lines += [wrapped(f"{'Met' if c['met'] else 'NOT met'}: {c['what']}.", "- ", "  ") for c in experiment["checks"]]
        lines += [""] if experiment["checks"] else []
        for description in experiment["tables"]:
            lines += table(description)
    args.output.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
