#!/usr/bin/env python3
"""Compares Quire's greedy completions with llama.cpp's, token by token.

    PYTHON compare_llama_cpp.py -m models/SmolLM2-135M-Instruct.Q4_1.gguf

Where the two part ways, the table shows by how much llama.cpp prefers its own choice over Quire's at
that position. A small gap is a tie that rounding decided; a large one is a bug in one of the two.

Quantised activations make such ties common: llama.cpp does not even agree with itself when flash
attention or the batch size changes. So the prompts that count are the first ten on which llama.cpp,
run in three ways, gives one answer ("steady"); the others are shown with their gaps.

Needs the environment that scripts/oracle_env.sh makes (peers), and a built quire.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import llama_cpp
import numpy as np

PROMPTS = (
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "def fibonacci(n):\n    ",
    "The three primary colours are",
    "Water boils at a temperature of",
    "Dear Sir or Madam,\n\nI am writing to",
    "1, 1, 2, 3, 5, 8, 13,",
    "La capitale de l'Italie est",
    "Question: Why is the sky blue?\nAnswer:",
    "In 1969, the first human beings walked on the Moon. Their names were",
    "What is the capital of France?",
    "Write a Python function that adds two numbers.",
    "Who wrote Romeo and Juliet?",
    "How many legs does a spider have?",
    "What is 12 times 12?",
    "Give me a recipe for pancakes.",
    "What does a key/value cache do in a language model?",
    "Monday, Tuesday, Wednesday,",
    "The quick brown fox jumps over the lazy dog. The quick brown fox",
    "To be, or not to be,",
    "The Second World War began in the year",
    "<html>\n<head>\n<title>",
    "A B C D E F G",
    "Roses are red, violets are",
)
# Ways to run llama.cpp that should not matter.
VARIANTS = ({}, {"flash_attn": True}, {"n_batch": 1, "n_ubatch": 1})
COUNTED = 10


class CompareError(Exception):
    """Something that makes a comparison impossible."""


@dataclass
class Comparison:
    prompt: str
    same: int  # leading tokens that agree
    total: int
    gap: float = 0.0  # llama.cpp's logit of its choice minus that of Quire's, at the first divergence
    theirs: str = ""
    ours: str = ""
    steady: bool = False  # llama.cpp agrees with itself


class Peer:
    """llama.cpp, one token at a time."""

    def __init__(self, path: str, context: int, threads: int | None, **variant):
        self.model = llama_cpp.Llama(
            path, n_ctx=context, n_threads=threads, n_threads_batch=threads, logits_all=True, verbose=False, **variant
        )
        self.vocab = llama_cpp.llama_model_get_vocab(self.model.model)

    def encode(self, text: str) -> list[int]:
        add_bos = bool(llama_cpp.llama_vocab_get_add_bos(self.vocab))
        return self.model.tokenize(text.encode(), add_bos=add_bos, special=False)

    def ends(self, token: int) -> bool:
        return bool(llama_cpp.llama_vocab_is_eog(self.vocab, token))

    def piece(self, token: int) -> str:
        return self.model.detokenize([token], special=True).decode(errors="replace")

    def greedy(self, prompt: str, count: int) -> tuple[list[int], list[np.ndarray]]:
        """Up to count tokens, the last of which may end the text, and the logits that each came from."""
        self.model.reset()
        self.model.eval(self.encode(prompt))
        tokens, rows = [], []
        while len(tokens) < count:
            rows.append(np.array(self.model._scores[self.model.n_tokens - 1]))
            tokens.append(int(rows[-1].argmax()))
            if self.ends(tokens[-1]):
                break
            self.model.eval(tokens[-1:])
        return tokens, rows


def run_quire(quire: Path, model: str, prompt: str, count: int) -> tuple[list[int], str]:
    command = [str(quire), "run", "-m", model, "-p", prompt, "-n", str(count), "--temp", "0", "--kernels", "exact", "--json"]
    try:
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            raise CompareError(f"{quire} failed with status {result.returncode}: {result.stderr.strip()}")
        answer = json.loads(result.stdout)
        return answer["tokens"], answer.get("stop", "")
    except OSError as error:
        raise CompareError(f"cannot run {quire}: {error.strerror}; build it, or point --quire at it") from None
    except (json.JSONDecodeError, KeyError) as error:
        raise CompareError(f"{quire} printed no usable JSON: {error}") from None


def compare(peer: Peer, quire: Path, model: str, prompt: str, count: int) -> Comparison:
    theirs, rows = peer.greedy(prompt, count)
    ours, stop = run_quire(quire, model, prompt, count)
    # Whether the token that ends a text is listed is a matter of taste; the decision to end is not.
    if stop == "eos" and len(ours) < count and not (ours and peer.ends(ours[-1])):
        ours = ours + [peer.model.token_eos()]
    same = 0
    while same < min(len(theirs), len(ours)) and theirs[same] == ours[same]:
        same += 1
    if same == len(theirs):
        return Comparison(prompt, same, len(theirs))
    if same == len(ours):
        return Comparison(prompt, same, len(theirs), float("inf"), peer.piece(theirs[same]), "(nothing)")
    if peer.ends(theirs[same]) and peer.ends(ours[same]):
        return Comparison(prompt, len(theirs), len(theirs))
    gap = float(rows[same][theirs[same]] - rows[same][ours[same]])
    return Comparison(prompt, same, len(theirs), gap, peer.piece(theirs[same]), peer.piece(ours[same]))


def write_markdown(file: Path, rows: list[Comparison], summary: str, model: str) -> None:
    lines = [
        "# Greedy answers beside llama.cpp's",
        "",
        f"Written by `scripts/oracles/compare_llama_cpp.py` for {Path(model).name}, llama-cpp-python {llama_cpp.__version__}.",
        "*steady*: llama.cpp gives one answer with and without flash attention and with a batch of 1; *same*: leading tokens",
        "on which Quire agrees with llama.cpp's default; *gap*: by how much llama.cpp's logits prefer its own token where the",
        "two part.",
        "",
        "| prompt | steady | same | gap | llama.cpp / Quire |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        differs = row.same != row.total
        choice = f"`{row.theirs!r}` / `{row.ours!r}`" if differs else ""
        gap = f"{row.gap:.3f}" if differs else ""
        lines.append(
            f"| `{row.prompt!r}` | {'yes' if row.steady else ''} | {row.same}/{row.total} | {gap} | {choice} |"
        )
    file.write_text("\n".join([*lines, "", summary, ""]))


def print_table(rows: list[Comparison]) -> None:
    print(f"{'prompt':<34} {'steady':>6} {'same':>7} {'gap':>7}  llama.cpp / quire")
    for row in rows:
        prompt = repr(row.prompt)
        prompt = prompt if len(prompt) <= 34 else prompt[:31] + "..."
        line = f"{prompt:<34} {'yes' if row.steady else '':>6} {f'{row.same}/{row.total}':>7}"
        if row.same != row.total:
            line += f" {row.gap:>7.3f}  {row.theirs!r} / {row.ours!r}"
        print(line)


def main() -> int:
    checkout = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", required=True, help="a GGUF file")
    parser.add_argument("--quire", type=Path, default=checkout / "build/quire", help="default: build/quire")
    parser.add_argument("-n", "--tokens", type=int, default=16, help="tokens to generate for each prompt (default 16)")
    parser.add_argument("--max-gap", type=float, default=0.5, help="fail if a gap is larger (default 0.5)")
    parser.add_argument("--threads", type=int, default=None, help="threads of llama.cpp")
    parser.add_argument("-o", "--output", type=Path, help="also write the table as Markdown")
    args = parser.parse_args()

    peers = [Peer(args.model, 256 + args.tokens, args.threads, **variant) for variant in VARIANTS]
    rows = []
    try:
        for prompt in PROMPTS:
            rows.append(compare(peers[0], args.quire, args.model, prompt, args.tokens))
            answers = [peer.greedy(prompt, args.tokens)[0] for peer in peers]
            rows[-1].steady = all(answer == answers[0] for answer in answers)
    except CompareError as error:
        print(f"compare_llama_cpp: {error}", file=sys.stderr)
        return 2
    print_table(rows)
    counted = [row for row in rows if row.steady][:COUNTED]
    agreeing = sum(row.same == row.total for row in counted)
    worst = max(row.gap for row in rows)
    summary = (
        f"llama.cpp agrees with itself on {sum(row.steady for row in rows)} of {len(rows)} prompts. "
        f"Of the first {len(counted)} of those Quire agrees on {agreeing}; the largest gap of all is {worst:.3f}."
    )
    print(summary)
    if args.output:
        write_markdown(args.output, rows, summary, args.model)
    return 1 if worst > args.max_gap or agreeing + 1 < len(counted) else 0


if __name__ == "__main__":
    sys.exit(main())
