#!/usr/bin/env python3
"""What each cache format costs in fidelity and what it saves in bytes: a table.

    scripts/fidelity.py --text FILE -o docs/fidelity.md [--peer llama_cpp.json]

--peer takes what scripts/oracles/kld_llama_cpp.py printed for the same text.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

from quire_program import quire_json, version

PAIRS = (
    "f32/f32 bf16/bf16 fp8/fp8 q8/q8 q5/q5 q4/q4 k4/k4 q5/q4 q4/q2 k4/q2 q2/q2 k2/k2"
).split()


def measure(args: argparse.Namespace, keys: str, values: str, extra: list[str]) -> dict:
    options = ["-f", args.text, "-c", str(args.ctx), "--chunks", str(args.chunks), "-ctk", keys, "-ctv", values, "--kld"]
    return quire_json(args.quire, args.model, "perplexity", *options, *extra)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quire", default="build/quire")
    parser.add_argument("--model", default="")
    parser.add_argument("--text", required=True)
    parser.add_argument("--ctx", type=int, default=2048)
    parser.add_argument("--chunks", type=int, default=6)
    parser.add_argument("--pairs", default=",".join(PAIRS), help="keys/values, separated by commas")
    parser.add_argument("--extra", default="", help="more options of quire perplexity, separated by spaces")
    parser.add_argument("--peer")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()

    rows = []
    for pair in args.pairs.split(","):
        keys, values = pair.split("/")
        out = measure(args, keys, values, args.extra.split())
        cache, kld = out["cache"], out["kld"]
        rows.append(
            f"| {keys} | {values} | {cache['bytes_per_token']:,} | {cache['bytes'] / cache['tokens']:,.0f} | "
            f"{kld['mean']:.5f} | {kld['median']:.5f} | {kld['p99']:.4f} | {out['perplexity']:.3f} | {kld['same_top_percent']:.1f} % |"
        )
        print(rows[-1], flush=True)
    lines = [
        "# What cache formats cost",
        "",
        f"Written by `scripts/fidelity.py --ctx {args.ctx} --chunks {args.chunks}`: {version(args.quire)} on {platform.machine()},",
        f"{Path(args.model).name if args.model else 'the default model'}, WikiText-2. KLD is from f16 keys and values of the same engine; f32 is the floor:",
        "what no format at all would show. Bytes held are the allocator's, sinks, recent tokens and open page included.",
        "",
        "| keys | values | bytes per token, sealed | bytes per token, held | mean KLD | median | p99 | perplexity | same top token |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *rows,
        "",
    ]
    if args.peer:
        peer = json.loads(Path(args.peer).read_text(encoding="utf-8"))
        lines += [f"llama.cpp (llama-cpp-python {peer[0]['version']}, flash attention) on the same chunks, from its own f16:", ""]
        lines += ["| type | bits per value | mean KLD | perplexity |", "| --- | --- | --- | --- |"]
        lines += [f"| {r['type']} | {r['bits']} | {r['kld']:.5f} | {r['perplexity']:.3f} |" for r in peer]
        lines.append("")
    if args.output:
        Path(args.output).write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
