#!/usr/bin/env python3
"""Makes tests/data/sharing: a tiny Llama whose layers share keys and values in pairs.

The second layer of each pair attends to what the first one projected (cross-layer attention): hooks
on its key and value projections hand out the first one's. Its own projections stay in the file,
and must not matter; that they would is checked here.

Needs the environment that scripts/oracle_env.sh makes (models). Run: PYTHON sharing_fixture.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
import transformers
from fixture_configs import VOCAB, Fixture, common, randomise, rope
from gguf_export import export
from model_fixtures import TOKENS, VISIBLE, build, logits_of, version, write_logits

LAYERS = 4


def share_in_pairs(model: torch.nn.Module) -> None:
    def remember(module, _, output):
        module.last_output = output

    layers = model.model.layers
    for first, second in zip(layers[::2], layers[1::2], strict=True):
        for name in ("k_proj", "v_proj"):
            giver, taker = getattr(first.self_attn, name), getattr(second.self_attn, name)
            giver.register_forward_hook(remember)
            taker.register_forward_hook(lambda module, _, output, giver=giver: giver.last_output)


README = """# Layers that share keys and values

`llama_pairs.gguf`: a random Llama of {layers} layers. `llama_pairs.logits`: what transformers {transformers} (torch {torch}, CPU, float32)
computes for {tokens} tokens where layers 1 and 3 attend to the keys and values of layers 0 and 2; without that, logits differ
by up to {change:.1f}. Formats as in `../models`. Made by `scripts/oracles/sharing_fixture.py`; not edited by hand.
"""


def main() -> None:
    checkout = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=checkout / "tests/data/sharing", help="where the fixture goes")
    parser.add_argument("--seed", type=int, default=40)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)  # one order of summation, whatever the machine
    torch.manual_seed(args.seed)
    sizes = common(hidden_size=32, intermediate_size=48, num_hidden_layers=LAYERS, rms_norm_eps=1e-5)
    config = transformers.LlamaConfig(**sizes, tie_word_embeddings=False, rope_parameters=rope())
    fixture = Fixture("llama_pairs", "llama", "layers 1 and 3 share what layers 0 and 2 cache", config)
    model = build(config)
    randomise(model, fixture)
    ids = torch.randint(0, VOCAB, (TOKENS,)).tolist()
    alone = logits_of(model, ids)
    args.dir.mkdir(parents=True, exist_ok=True)
    export(args.dir / "llama_pairs.gguf", fixture, model)

    share_in_pairs(model)
    logits = logits_of(model, ids)
    change = float(np.abs(logits - alone).max())
    print(f"standard deviation of the logits {logits.std():.2f}; sharing changes them by up to {change:.2f}")
    if logits.std() < 3 or change < VISIBLE:
        raise SystemExit("the logits are too flat, or sharing does not show")
    for layer in model.model.layers[1::2]:
        for projection in (layer.self_attn.k_proj, layer.self_attn.v_proj):
            projection.weight.data.zero_()
    if not np.array_equal(logits_of(model, ids), logits):
        raise SystemExit("the second layers' own keys and values still matter")
    write_logits(args.dir / "llama_pairs.logits", ids, logits)
    text = README.format(
        layers=LAYERS,
        transformers=version("transformers"),
        torch=version("torch").split("+")[0],
        tokens=TOKENS,
        change=change,
    )
    (args.dir / "README.md").write_text(text)


if __name__ == "__main__":
    main()
