#!/usr/bin/env python3
"""Perplexity of a model on a text, computed by llama.cpp with the method of its own perplexity tool.

The text is tokenised once and cut into chunks of --ctx tokens. Each chunk starts from an empty cache,
its first token replaced by BOS where the model asks for one, and only its second half is scored: the
logits of positions ctx/2 ... ctx-2 against the tokens at ctx/2+1 ... ctx-1.

Needs the environment that scripts/oracle_env.sh makes (peers).
"""

from __future__ import annotations

import argparse
import math
import sys
import time

import llama_cpp
import numpy as np

CACHE_TYPES = {"f32": llama_cpp.GGML_TYPE_F32, "f16": llama_cpp.GGML_TYPE_F16, "q8_0": llama_cpp.GGML_TYPE_Q8_0}


def wants_bos(model: llama_cpp.Llama) -> bool:
    return bool(llama_cpp.llama_vocab_get_add_bos(llama_cpp.llama_model_get_vocab(model.model)))


def log_likelihoods(logits: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The log probability that each row of logits gives to its target."""
    logits = logits.astype(np.float64)
    top = logits.max(axis=1)
    log_sum = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    return logits[np.arange(len(targets)), targets] - log_sum


def score_chunk(model: llama_cpp.Llama, chunk: list[int]) -> np.ndarray:
    model.reset()
    model.eval(chunk)
    first = len(chunk) // 2
    return -log_likelihoods(model._scores[first : len(chunk) - 1], np.array(chunk[first + 1 :]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--file", required=True, help="the text")
    parser.add_argument("--ctx", type=int, default=512, help="tokens in a chunk (default 512)")
    parser.add_argument("--chunks", type=int, default=0, help="how many chunks (default: the whole text)")
    parser.add_argument("--cache-type", choices=sorted(CACHE_TYPES), default="f16", help="of keys and values")
    parser.add_argument("--flash-attn", action="store_true", help="use llama.cpp's flash attention")
    parser.add_argument("--threads", type=int, default=None)
    args = parser.parse_args()

    cache_type = CACHE_TYPES[args.cache_type]
    sizes = {"n_ctx": args.ctx, "n_batch": args.ctx, "n_threads": args.threads, "n_threads_batch": args.threads}
    # llama.cpp stores quantised values only with flash attention.
    options = {"type_k": cache_type, "type_v": cache_type, "flash_attn": args.flash_attn or args.cache_type == "q8_0"}
    model = llama_cpp.Llama(args.model, logits_all=True, verbose=False, **sizes, **options)
    with open(args.file, "rb") as file:
        tokens = model.tokenize(file.read(), add_bos=wants_bos(model), special=False)

    count = len(tokens) // args.ctx
    if args.chunks:
        count = min(count, args.chunks)
    if count == 0:
        print(f"perplexity: the text has only {len(tokens)} tokens, fewer than one chunk", file=sys.stderr)
        return 1
    print(f"{len(tokens)} tokens, {count} chunks of {args.ctx}")
    losses = np.empty(0)
    started = time.monotonic()
    for i in range(count):
        chunk = tokens[i * args.ctx : (i + 1) * args.ctx]
        if wants_bos(model):
            chunk[0] = model.token_bos()
        losses = np.append(losses, score_chunk(model, chunk))
        print(f"[{i + 1}] {math.exp(losses.mean()):.4f}  ({time.monotonic() - started:.0f} s)", flush=True)
    perplexity = math.exp(losses.mean())
    error = perplexity * losses.std(ddof=1) / math.sqrt(len(losses))
    print(f"perplexity {perplexity:.4f} +/- {error:.4f} over {len(losses)} scored tokens")
    return 0


if __name__ == "__main__":
    sys.exit(main())
