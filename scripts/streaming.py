#!/usr/bin/env python3
"""A text longer than the model's context, streamed through a cache of constant size: a table and a chart.

Compares attention sinks and a plain window on the last tokens of a long text with the same tokens in fresh contexts, and
shows what the full cache says at the end of its context.

    scripts/streaming.py --text FILE -o docs/streaming.md
"""

from __future__ import annotations

import argparse
import math
import platform
import subprocess
import tempfile
from pathlib import Path

from quire_program import quire_json, version

COLOURS = {"sinks": "#1b6ca8", "window": "#c0392b", "fresh": "#555555"}


def run(args: argparse.Namespace, folder: str, name: str, options: list[str]) -> tuple[dict, list[tuple[int, float]]]:
    losses = Path(folder) / f"{name}.txt"
    print(f"{name}: {' '.join(options)}", flush=True)
    report = quire_json(args.quire, args.model, "perplexity", "-f", args.text, "--per-token", str(losses), *options)
    pairs = [line.split() for line in losses.read_text(encoding="utf-8").splitlines()]
    return report, [(int(i), float(x)) for i, x in pairs]


def mean(losses: list[tuple[int, float]], first: int) -> float:
    kept = [x for i, x in losses if i >= first]
    return sum(kept) / len(kept)


def smooth(losses: list[tuple[int, float]], width: int) -> list[tuple[int, float]]:
    return [
        (losses[k][0], sum(x for _, x in losses[k : k + width]) / width) for k in range(0, len(losses) - width + 1, width)
    ]


def chart(curves: dict[str, list[tuple[int, float]]], labels: dict[str, str], trained: int) -> str:
    width, height, left, bottom, top = 860, 380, 60, 40, 20
    points = [p for c in curves.values() for p in c]
    most_x, low, high = max(x for x, _ in points), math.floor(min(y for _, y in points)), math.ceil(max(y for _, y in points))
    at_x = lambda x: left + (width - left - 160) * x / most_x
    at_y = lambda y: height - bottom - (height - bottom - top) * (y - low) / (high - low)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">']
    out.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for y in range(low, high + 1):
        out.append(f'<line x1="{left}" x2="{width - 160}" y1="{at_y(y):.1f}" y2="{at_y(y):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 8}" y="{at_y(y) + 4:.1f}" text-anchor="end">{y}</text>')
    for x in range(0, most_x + 1, 8000):
        out.append(f'<text x="{at_x(x):.1f}" y="{height - bottom + 18}" text-anchor="middle">{x:,}</text>')
    out.append(f'<line x1="{at_x(trained):.1f}" x2="{at_x(trained):.1f}" y1="{top}" y2="{height - bottom}" stroke="#999" stroke-dasharray="4 4"/>')
    out.append(f'<text x="{at_x(trained) + 4:.1f}" y="{top + 12}" fill="#666">trained context</text>')
    out.append(f'<text x="{(width - 160 + left) / 2}" y="{height - 6}" text-anchor="middle">position in the text (tokens)</text>')
    out.append(f'<text transform="translate(14 {height / 2}) rotate(-90)" text-anchor="middle">loss (nats per token)</text>')
    for k, (name, curve) in enumerate(curves.items()):
        path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in curve)
        out.append(f'<polyline fill="none" stroke="{COLOURS[name]}" stroke-width="1.6" points="{path}"/>')
        out.append(f'<text x="{width - 150}" y="{top + 20 + 18 * k}" fill="{COLOURS[name]}">{labels[name]}</text>')
    return "\n".join([*out, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quire", default="build/quire")
    parser.add_argument("--model", default="")
    parser.add_argument("--text", required=True)
    parser.add_argument("--tokens", type=int, default=40000)
    parser.add_argument("--last", type=int, default=8192, help="tokens at the end that are compared")
    parser.add_argument("--window", type=int, default=2048)
    parser.add_argument("--sinks", type=int, default=4)
    parser.add_argument("--trained", type=int, default=8192, help="the model's context, where full stops")
    parser.add_argument("-o", "--output", help="file for the table, in Markdown; the chart goes beside it")
    args = parser.parse_args()

    everything = ["-c", str(args.tokens), "--chunks", "1", "--score-last", str(args.tokens - 1)]
    sinks = f"sinks:{args.sinks}+{args.window - args.sinks}"
    first = args.tokens - args.last
    with tempfile.TemporaryDirectory() as folder:
        kept, kept_losses = run(args, folder, "sinks", [*everything, "--cache-policy", sinks])
        plain, plain_losses = run(args, folder, "window", [*everything, "--cache-policy", f"window:{args.window}"])
        # Fresh contexts: disjoint ones, and ones that overlap by half, where every token has at least half a window.
        size = ["-c", str(args.window)]
        chunks = args.last // args.window
        _, disjoint = run(args, folder, "disjoint", [*size, "--skip", str(first), "--chunks", str(chunks), "--score-last", str(args.window - 1)])
        half = args.window // 2
        _, fresh = run(args, folder, "fresh", [*size, "--skip", str(first - half), "--stride", str(half), "--chunks", str(args.last // half), "--score-last", str(half)])
        _, chunked = run(args, folder, "chunk512", ["-c", "4096", "--chunks", "1", "--score-last", "4095", "--cache-policy", sinks])
        _, single = run(args, folder, "chunk1", ["-c", "4096", "--chunks", "1", "--score-last", "4095", "--cache-policy", sinks, "-b", "1"])
    command = [args.quire, "perplexity", "-f", args.text, "-c", str(args.tokens), "--chunks", "1"]
    command += ["-m", args.model] if args.model else []
    refused = subprocess.run(command, capture_output=True, text=True)

    rows = [
        (f"`{sinks}`", mean(kept_losses, first), kept["cache"]["bytes"]),
        (f"`window:{args.window}`", mean(plain_losses, first), plain["cache"]["bytes"]),
        (f"fresh contexts of {args.window}, overlapping by half", mean(fresh, first), 0),
        (f"fresh contexts of {args.window}, disjoint", mean(disjoint, first), 0),
    ]
    base = rows[2][1]
    same = kept_losses and all(a == b for a, b in zip(chunked, single))
    lines = [
        "# Streaming past the trained context",
        "",
        f"Written by `scripts/streaming.py --tokens {args.tokens} --last {args.last}`: {version(args.quire)} on {platform.machine()}, WikiText-2. Loss in nats",
        f"over the last {args.last:,} of {args.tokens:,} tokens, against the same tokens in fresh contexts that overlap by half (each token sees",
        f"{args.window // 2:,} to {args.window:,} tokens).",
        "",
        "| cache | loss | against fresh, overlapping | bytes held at the end |",
        "| --- | --- | --- | --- |",
        *[f"| {n} | {x:.4f} | {100 * (x / base - 1):+.2f} % | {f'{b:,}' if b else '–'} |" for n, x, b in rows],
        "",
        f"In chunks of 512 and of 1, the losses of 4,096 tokens under `{sinks}` are {'identical' if same else 'NOT identical'}.",
        "",
        f"`full` with {args.tokens:,} tokens: `{refused.stderr.strip()}`",
        "",
        "![loss along the text](streaming.svg)",
        "",
    ]
    print("\n".join(lines))
    if args.output:
        Path(args.output).write_text("\n".join(lines), encoding="utf-8")
        curves = {"sinks": smooth(kept_losses, 512), "window": smooth(plain_losses, 512), "fresh": smooth(fresh, 512)}
        labels = {"sinks": sinks, "window": f"window:{args.window}", "fresh": "fresh contexts"}
        Path(args.output).with_suffix(".svg").write_text(chart(curves, labels, args.trained), encoding="utf-8")


if __name__ == "__main__":
    main()
