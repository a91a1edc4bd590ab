#!/usr/bin/env python3
"""Cached and naive generation give the same tokens: 20 prompts of 1 to 600 tokens, greedy and seeded.

Naive generation recomputes the whole sequence for every token, so this takes a while:
about n/2 times the work of the cached run. --quick takes fewer and shorter prompts.
--paths compares the paged cache with the flat one, with none, and with prefill in chunks of several sizes instead:
ten prompts, 256 greedy tokens each.
"""

from __future__ import annotations

import argparse
import sys

from quire_program import in_order, quire_json, threads_of

# Lengths in words; a word is one or two tokens.
WORDS = (
    "the old library at the end of the street kept its books in long rows of oak and every evening the keeper walked "
    "between them with a lamp counting the empty places where a volume had been lent and not yet come home"
).split()
FULL = [1, 2, 3, 5, 8, 13, 21, 29, 31, 32, 33, 40, 63, 64, 65, 100, 150, 250, 400, 560]
QUICK = [1, 3, 31, 33, 70]
PATHS = [2, 8, 21, 31, 33, 48, 64, 90, 130, 200]
WAYS = [["--cache-layout", "flat"], *(["-b", str(n)] for n in (1, 31, 32, 33, 512)), ["--no-cache"]]


def prompt(words: int) -> str:
    return " ".join(WORDS[i % len(WORDS)] if i % 17 else f"Chapter {i}:" for i in range(1, words + 1))


def generate(args: argparse.Namespace, text: str, options: list[str]) -> dict:
    return quire_json(args.quire, args.model, "run", "-p", text, *options, *threads_of(args.jobs))


def compare(args: argparse.Namespace, words: int, sampling: list[str]) -> bool:
    options = ["-n", str(args.predict), *sampling]
    cached = generate(args, prompt(words), options)
    naive = generate(args, prompt(words), [*options, "--no-cache"])
    same = cached["tokens"] == naive["tokens"] and cached["stop"] == naive["stop"]
    print(
        f"{cached['timings']['prompt_n']:4d} tokens of prompt, {len(cached['tokens']):3d} generated, "
        f"{' '.join(sampling):32s} computed {cached['computed_tokens']:4d} against {naive['computed_tokens']:6d}: "
        f"{'same' if same else 'DIFFERENT'}",
        flush=True,
    )
    return same


def compare_paths(args: argparse.Namespace, words: int) -> int:
    """The number of ways that give other tokens than the paged cache."""
    options = ["-n", str(args.predict), "--temp", "0"]
    paged = generate(args, prompt(words), options)
    different = []
    for way in WAYS:
        other = generate(args, prompt(words), [*options, *way])
        if other["tokens"] != paged["tokens"] or other["stop"] != paged["stop"]:
            different.append(" ".join(way))
    print(
        f"{paged['timings']['prompt_n']:4d} tokens of prompt, {len(paged['tokens']):3d} generated, {len(WAYS)} ways: "
        f"{'DIFFERENT: ' + ', '.join(different) if different else 'same'}",
        flush=True,
    )
    return len(different)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quire", default="build/quire")
    parser.add_argument("--model", required=True)
    parser.add_argument("--predict", type=int)
    parser.add_argument("--quick", action="store_true", help="five short prompts, 16 tokens each")
    parser.add_argument("--paths", action="store_true", help="paged against flat, naive and chunked; 256 tokens each")
    parser.add_argument("--jobs", type=int, default=1, help="prompts at once, each with its share of the processors")
    args = parser.parse_args()
    args.predict = args.predict or (16 if args.quick else 256 if args.paths else 64)
    if args.paths:
        different = sum(in_order(args.jobs, lambda words: compare_paths(args, words), PATHS))
    else:
        pairs = [
            (words, sampling)
            for words in (QUICK if args.quick else FULL)
            for sampling in (["--temp", "0"], ["--temp", "0.8", "--seed", str(words)])
        ]
        different = sum(in_order(args.jobs, lambda pair: not compare(args, *pair), pairs))
    print(f"{different} differences")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
