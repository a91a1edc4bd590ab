#!/usr/bin/env python3
"""Facts planted in long prompts: how many does each cache policy still recall?

A fact ("The code of the red lamp is 48213.") lies somewhere in a text; the prompt ends by asking for it. Only facts
that the full cache recalls count. Policies are given the same number of tokens. Beside it, the text's perplexity when as
many of a context's tokens are kept.

    scripts/needles.py --text FILE -o docs/eviction.md
"""

from __future__ import annotations

import argparse
import platform
import random
import tempfile
from pathlib import Path

from quire_program import in_order, quire_json, threads_of, version

COLOURS = "red blue green yellow black white orange purple silver golden".split()
THINGS = "lamp door box chair boat clock garden tower bridge wagon".split()


def plant(text: str, rng: random.Random, characters: int) -> tuple[str, str]:
    """A prompt and the code it should end with."""
    name = f"{rng.choice(COLOURS)} {rng.choice(THINGS)}"
    code = "".join(rng.choice("0123456789") for _ in range(5))
    start = rng.randrange(len(text) - characters)
    start = text.index(" ", start) + 1
    hay = text[start : start + characters]
    at = hay.index(" ", int(rng.uniform(0.05, 0.9) * len(hay))) + 1
    fact = f"The code of the {name} is {code}. Remember it: the {name} has the code {code}. "
    question = f"\n\nQuestion: What is the code of the {name}?\nAnswer: The code of the {name} is "
    return hay[:at] + fact + hay[at:] + question, code


def ask(args: argparse.Namespace, prompt: Path, policy: str) -> dict:
    options = ["-f", str(prompt), "-n", "6", "--temp", "0", "--cache-policy", policy, *threads_of(args.jobs)]
    return quire_json(args.quire, args.model, "run", *options, "-ctk", args.type_k, "-ctv", args.type_v)


def ask_all(args: argparse.Namespace, runs: list[tuple[str, int]], words: str, code: str) -> dict | None:
    """The full cache's report and the policies', or nothing where the full cache does not recall the fact."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as file:
        file.write(words)
        file.flush()
        prompt = Path(file.name)
        reports = {"full": ask(args, prompt, "full")}
        if not recalls(reports["full"], code):
            return None
        tokens = reports["full"]["timings"]["prompt_n"]
        for policy, share in runs:
            reports[policy, share] = ask(args, prompt, f"{policy}:{tokens * share // 100}")
        return reports


def recalls(report: dict, code: str) -> bool:
    return report["text"].strip().startswith(code)


def perplexity(args: argparse.Namespace, policy: str) -> float:
    options = ["-f", args.text, "-c", str(args.ctx), "--chunks", str(args.chunks), "-b", str(args.batch), "--cache-policy", policy]
    out = quire_json(args.quire, args.model, "perplexity", *options, "-ctk", args.type_k, "-ctv", args.type_v)
    return out["perplexity"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quire", default="build/quire")
    parser.add_argument("--model", default="")
    parser.add_argument("--text", required=True, help="a long plain text to hide facts in")
    parser.add_argument("--facts", type=int, default=100, help="recalled by the full cache")
    parser.add_argument("--characters", type=int, default=4500, help="of each prompt")
    parser.add_argument("--type-k", default="f16")
    parser.add_argument("--type-v", default="f16")
    parser.add_argument("--policies", default="h2o,snapkv,window")
    parser.add_argument("--shares", default="50,25", help="percent of the prompt's tokens kept")
    parser.add_argument("--ctx", type=int, default=2048, help="context of the perplexity")
    parser.add_argument("--chunks", type=int, default=4, help="contexts of the perplexity")
    parser.add_argument("--batch", type=int, default=64, help="tokens between evictions while perplexity is measured")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="facts asked for at once, each with its share of the processors")
    parser.add_argument("-o", "--output", help="file for the table, in Markdown")
    args = parser.parse_args()

    text = " ".join(Path(args.text).read_text(encoding="utf-8").split())
    rng = random.Random(args.seed)
    runs = [(p, int(s)) for s in args.shares.split(",") for p in args.policies.split(",")]
    recalled = {run: 0 for run in runs}
    held = {run: 0 for run in runs}
    asked = known = full_bytes = tokens = 0
    planted = [plant(text, rng, args.characters) for _ in range(4 * args.facts)]
    for (_, code), reports in zip(planted, in_order(args.jobs, lambda x: ask_all(args, runs, *x), planted)):
        asked += 1
        if reports is None:
            continue
        known += 1
        full_bytes += reports["full"]["cache"]["bytes"]
        tokens += reports["full"]["timings"]["prompt_n"]
        for run in runs:
            recalled[run] += recalls(reports[run], code)
            held[run] += reports[run]["cache"]["bytes"]
        line = ", ".join(f"{p} {s}%: {recalled[p, s]}" for p, s in runs)
        print(f"{known} of {asked} recalled by full; {line}", flush=True)
        if known == args.facts:
            break

    lines = [
        "# What eviction forgets",
        "",
        f"Written by `scripts/needles.py --facts {args.facts} --characters {args.characters} --seed {args.seed}` with",
        f"{version(args.quire)}, keys {args.type_k}, values {args.type_v}, on {platform.machine()}. Of {asked} facts planted in prompts of",
        f"{tokens // max(known, 1)} tokens on average, the full cache recalled {known}; those are asked again under each policy.",
        f"Perplexity: {args.chunks} contexts of {args.ctx} tokens, second halves, {args.batch} tokens at a time.",
        "SnapKV lets tokens go once, when a prompt ends: a text without a prompt loses none, and its perplexity is that of full.",
        "",
        "| policy | tokens kept | recalled | bytes held at the end | perplexity |",
        "| --- | --- | --- | --- | --- |",
        f"| full | 100 % | {known} | {full_bytes // max(known, 1):,} | {perplexity(args, 'full'):.2f} |",
    ]
    for policy, share in runs:
        mean = held[policy, share] // max(known, 1)
        beside = perplexity(args, f"{policy}:{args.ctx * share // 100}")
        lines.append(f"| {policy} | {share} % | {recalled[policy, share]} | {mean:,} | {beside:.2f} |")
    table = "\n".join(lines) + "\n"
    print(table)
    if args.output:
        Path(args.output).write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
