#!/usr/bin/env python3
"""What llama.cpp's own cache types cost: KL divergence from its f16 cache and perplexity, on chunks of a text.

The method is that of `quire perplexity --kld`: chunks of --ctx tokens from an empty cache, second halves scored. Prints
one JSON document for scripts/fidelity.py --peer.

Needs the environment that scripts/oracle_env.sh makes (peers).
"""

from __future__ import annotations

import argparse
import json
import math
import sys

import llama_cpp
import numpy as np

TYPES = {
    "f16": llama_cpp.GGML_TYPE_F16,
    "q8_0": llama_cpp.GGML_TYPE_Q8_0,
    "q5_0": llama_cpp.GGML_TYPE_Q5_0,
    "q4_0": llama_cpp.GGML_TYPE_Q4_0,
}
BITS = {"f16": 16, "q8_0": 8.5, "q5_0": 5.5, "q4_0": 4.5}


def log_softmax(logits: np.ndarray) -> np.ndarray:
    top = logits.max(axis=1, keepdims=True)
    return logits - (top + np.log(np.exp((logits - top).astype(np.float64)).sum(axis=1, keepdims=True))).astype(np.float32)


def scored(model: llama_cpp.Llama, chunk: list[int]) -> np.ndarray:
    model.reset()
    model.eval(chunk)
    return log_softmax(model._scores[len(chunk) // 2 : len(chunk) - 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--file", required=True)
    parser.add_argument("--ctx", type=int, default=2048)
    parser.add_argument("--chunks", type=int, default=6)
    parser.add_argument("--types", default="f16,q8_0,q5_0,q4_0")
    args = parser.parse_args()
    rows = []
    base: list[np.ndarray] = []
    for name in args.types.split(","):
        # Quantised values need flash attention there; it is on for all, so that only the type differs.
        model = llama_cpp.Llama(
            args.model, n_ctx=args.ctx, n_batch=512, logits_all=True, verbose=False, flash_attn=True,
            type_k=TYPES[name], type_v=TYPES[name],
        )
        tokens = model.tokenize(open(args.file, "rb").read(), add_bos=False, special=False)
        losses, divergences = [], []
        for i in range(args.chunks):
            chunk = tokens[i * args.ctx : (i + 1) * args.ctx]
            logs = scored(model, chunk)
            losses.append(-logs[np.arange(len(logs)), chunk[len(chunk) // 2 + 1 :]])
            if name == "f16":
                base.append(logs)
            p = np.exp(base[i].astype(np.float64))
            divergences.append((p * (base[i] - logs)).sum(axis=1))
            print(f"{name} chunk {i + 1}", file=sys.stderr, flush=True)
        kld = np.concatenate(divergences)
        rows.append({
            "type": name, "bits": BITS[name], "perplexity": math.exp(np.concatenate(losses).mean()),
            "kld": float(kld.mean()), "version": llama_cpp.__version__,
        })
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
