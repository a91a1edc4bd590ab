#!/usr/bin/env python3
"""What many requests on one cache show on a real model: equality, sharing, stalls, conversations, prompt lookup, schemas.

    scripts/engine.py -o docs/engine.md

Ends with an error where a bar was missed; the tables are written all the same, and say so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from quire_program import version

MISSED = 3  # the exit status of a show whose figures came out short


def show(args: argparse.Namespace, model: str, name: str, *options: str) -> dict:
    command = [args.program, name, "-m", model, *options]
    print(" ".join(command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, MISSED):
        sys.exit(f"{' '.join(command)} ended with {done.returncode}")
    return json.loads(done.stdout)


def machine() -> str:
    names = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(os.sched_getaffinity(0))} processors"


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows]]


def bars(shown: dict) -> list[str]:
    return ["", "Bars: " + "; ".join(f"{bar['what']}: {'met' if bar['met'] else '**MISSED**'}" for bar in shown["bars"]) + ".", ""]


def random_requests(r: dict) -> list[str]:
    policies = ", ".join(f"{name} {count}" for name, count in r["policies"].items())
    return [
        "## Random requests together answer as each alone",
        "",
        f"{r['requests']} requests of 1 to {r['longest']:,} tokens (seed {r['seed']}), {r['together']} at a time, greedy, f16, against one at a time in an empty",
        f"cache without guesses. Policies: {policies}. Shared prefixes, priorities, salts, two choices, prompt lookup and cancels are mixed in.",
        "",
        *table(
            ["answers that differ", "failed", "cancelled", "preempted", "prompt tokens", "found in the cache", "generated", "guesses accepted"],
            [[f"{r[key]:,}" for key in ("differences", "failed", "cancelled", "preemptions", "prompt_tokens", "cached_tokens", "generated_tokens", "accepted_tokens")]],
        ),
        "",
        f"The cache had a budget of {r['bytes_budget']:,} bytes; the most it held in {r['looks']:,} looks was {r['bytes_most']:,}. At idle, with cached pages",
        f"forgotten, it held {r['bytes_idle']}. All together took {r['together_ms'] / 1e3:.0f} s, one at a time {r['alone_ms'] / 1e3:.0f} s.",
        *bars(r),
    ]


def sharing(r: dict) -> list[str]:
    return [
        "## A shared prefix is computed once",
        "",
        f"{r['requests']} requests on one prefix of {r['prefix']:,} tokens, each with {r['suffix']} of its own and {r['predict']} generated, in a warm process; median of",
        f"{r['repeats']}. Apart: the same kernels without sharing, one after the other.",
        "",
        *table(
            ["", "seconds", "tokens computed"],
            [
                ["shared", f"{r['shared_ms'] / 1e3:.2f}", f"{r['shared_computed_tokens']:,}"],
                ["apart", f"{r['separate_ms'] / 1e3:.2f}", f"{r['separate_computed_tokens']:,}"],
                ["ratio", f"{r['ratio']:.2f}", f"{r['separate_computed_tokens'] / r['shared_computed_tokens']:.2f}"],
            ],
        ),
        *bars(r),
    ]


def stall(r: dict) -> list[str]:
    return [
        "## A long prompt does not stall those who generate",
        "",
        f"{r['requests']} requests generate when a prompt of {r['long_prompt']:,} tokens arrives. Milliseconds between tokens, as their readers saw them; the middle",
        f"one of {len(r['ratios'])} runs.",
        "",
        *table(
            ["", "p50", "p99", "gaps"],
            [
                ["before it", f"{r['before_p50_ms']:.1f}", f"{r['before_p99_ms']:.1f}", f"{r['gaps_before']:,}"],
                ["until its first token", f"{r['during_p50_ms']:.1f}", f"{r['during_p99_ms']:.1f}", f"{r['gaps_during']:,}"],
            ],
        ),
        "",
        f"p99 during is {r['ratio']:.2f} times the median before ({', '.join(f'{x:.2f}' for x in r['ratios'])}); the longest gap was {r['during_most_ms']:.1f} ms. The long prompt's first token came after",
        f"{r['first_token_ms'] / 1e3:.2f} s, alone after {r['first_token_alone_ms'] / 1e3:.2f} s. The engine chose {r['prefill_budget_ms']:.1f} ms of prompt a step.",
        *bars(r),
    ]


def chat(r: dict, model: str) -> list[str]:
    rows = [(str(i + 1), turn) for i, turn in enumerate(r["turns"])] + [(f"{r['edited_turn']}, edited", r["edit"])]
    keys = ("prompt_tokens", "known_tokens", "cached_tokens", "computed_tokens", "answered_tokens")
    return [
        f"### {Path(model).name}{'' if r['template'] else ', without a chat template: plain questions and answers'}",
        "",
        *table(["turn", "prompt", "of it computed before", "found", "computed now", "answered"], [[n, *[f"{t[k]:,}" for k in keys]] for n, t in rows]),
        *bars(r),
    ]


def lookup(r: dict) -> list[str]:
    def row(name: str, k: dict) -> list[str]:
        rates = [f"{k['off_tokens_per_s']:.1f}", f"{k['lookup_tokens_per_s']:.1f}", f"{k['ratio']:.2f}", f"{k['least_ratio']:.2f}"]
        return [name, *rates, f"{k['accepted']:,} of {k['drafted']:,} ({100 * k['acceptance']:.0f} %)", "yes" if k["same_tokens"] else "**no**"]

    return [
        "## Prompt lookup",
        "",
        f"{len(r['rewrites']['tasks'])} texts to be repeated with one change and {len(r['prose']['tasks'])} pieces of prose, up to {r['predict']} tokens each, one at a time; in turns with and",
        f"without, medians of {r['repeats']}. Tokens per second of generating.",
        "",
        *table(["", "off", "lookup", "ratio", "least of a task", "guesses accepted", "same tokens"], [row("repeated", r["rewrites"]), row("prose", r["prose"])]),
        *bars(r),
    ]


def schemas(r: dict) -> list[str]:
    return [
        "## Answers in a schema",
        "",
        f"{r['schemas']} JSON schemas, {r['runs'] // r['schemas']} answers each at temperature 1 with no other limit on what is drawn.",
        "",
        *table(
            ["answers", "valid", "ms a token in a schema", "ms a token without", "ratio"],
            [[f"{r['runs']:,}", f"{r['valid']:,}", f"{r['constrained_ms_per_token']:.2f}", f"{r['free_ms_per_token']:.2f}", f"{r['ratio']:.3f}"]],
        ),
        *bars(r),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/engine_shows")
    parser.add_argument("--model", default="models/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--windowed", default="models/gemma-3-270m-q4_k_m.gguf", help="a model with local layers, for the conversation; '' for none")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("-o", "--output", help="file for the tables, in Markdown")
    args = parser.parse_args()

    quick = {  # those that measure time come first
        "stall": ["--longest", "600", "--before", "16", "--repeats", "1"],
        "sharing": ["--prefix", "256", "--predict", "8", "--repeats", "1"],
        "lookup": ["--predict", "48", "--tasks", "2", "--repeats", "1"],
        "schemas": ["--runs", "2"],
        "chat": ["--opening", "64", "--predict", "16"],
        "random": ["--requests", "30", "--longest", "300", "--predict", "12"],
    }
    shown = {name: show(args, args.model, name, *(options if args.quick else [])) for name, options in quick.items()}
    talks = [(args.model, shown["chat"])]
    if args.windowed:
        talks.append((args.windowed, show(args, args.windowed, "chat", *(quick["chat"] if args.quick else []))))

    lines = [
        "# What the engine shows",
        "",
        f"Written by `scripts/engine.py{' --quick' if args.quick else ''}`: {version(args.program)}, {Path(args.model).name}, {machine()}. Each part is a",
        f"subcommand of `{Path(args.program).name}`, whose JSON has more.",
        "",
        *random_requests(shown["random"]),
        *sharing(shown["sharing"]),
        *stall(shown["stall"]),
        "## A conversation computes only what is new",
        "",
        "Ten turns after a long opening; every prompt is the whole conversation, tokenised anew. Then the third question is changed and asked again.",
        "The last token of an answer that was cut off was drawn and not computed, and the last of a prompt is always computed.",
        "",
        *[line for model, figures in talks for line in chat(figures, model)],
        *lookup(shown["lookup"]),
        *schemas(shown["schemas"]),
    ]
    text = "\n".join(lines).rstrip("\n") + "\n"
    print(text)
    if args.output:
        Path(args.output).write_text(text, encoding="utf-8")
    if not all(figures["met"] for figures in [*shown.values(), *[talk for _, talk in talks]]):
        sys.exit("a bar was missed")


if __name__ == "__main__":
    main()
