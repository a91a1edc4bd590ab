#!/usr/bin/env python3
"""Makes tests/data/mla: what `transformers` computes for one layer of multi-head latent attention.

A DeepSeek-V2 attention layer (latent of 512, RoPE part of 64) with weights and inputs from `noise`,
which the C++ test repeats bit for bit, so that only the outputs have to be stored. Two sequences
share their first tokens and part in the middle of a page. A fixture must be able to tell a
mistake: attention far from uniform, and changed outputs under a wrong scale, RoPE pairing or latent.

Needs the environment that scripts/oracle_env.sh makes (models). Run: PYTHON mla_fixture.py
"""

from __future__ import annotations

import argparse
import struct
from pathlib import Path

import numpy as np
import torch
import transformers
from model_fixtures import version
from transformers.models.deepseek_v2 import modeling_deepseek_v2 as deepseek

TOKENS, FORK = 72, 40
HIDDEN, HEADS, LATENT, ROPE, NOPE, VALUE = 256, 4, 512, 64, 128, 128
EPSILON = 1e-6  # of the latent's norm
# The least change of an output, in standard deviations, that a mistake must cause. The test allows 2e-4.
VISIBLE = 0.01


def noise(seed: int, count: int, scale: float) -> np.ndarray:
    """Uniform in [-scale, scale), from hashed counters; exact in float32 where scale is a power of two."""
    x = np.arange(count, dtype=np.uint32) + np.uint32(seed << 24)
    x = (x ^ (x >> 16)) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * np.uint32(0x846CA68B)
    x = x ^ (x >> 16)
    return ((x >> 8).astype(np.float64) / 2**23 - 1) * scale


def make_layer() -> deepseek.DeepseekV2Attention:
    config = transformers.DeepseekV2Config(
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        q_lora_rank=None,
        kv_lora_rank=LATENT,
        qk_rope_head_dim=ROPE,
        qk_nope_head_dim=NOPE,
        v_head_dim=VALUE,
        rms_norm_eps=EPSILON,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        attn_implementation="eager",
    )
    layer = deepseek.DeepseekV2Attention(config, layer_idx=0).double().eval()
    weights = {
        "q_proj": noise(1, HEADS * (NOPE + ROPE) * HIDDEN, 2**-2),
        "kv_a_proj_with_mqa": noise(2, (LATENT + ROPE) * HIDDEN, 2**-3),
        "kv_a_layernorm": 1 + noise(3, LATENT, 2**-1),
        "kv_b_proj": noise(4, HEADS * (NOPE + VALUE) * LATENT, 2**-4),
        "o_proj": noise(5, HIDDEN * HEADS * VALUE, 2**-4),
    }
    for name, value in weights.items():
        weight = getattr(layer, name).weight
        weight.data.copy_(torch.from_numpy(value).reshape(weight.shape))
    return layer


def inputs() -> tuple[np.ndarray, np.ndarray]:
    whole = noise(6, TOKENS * HIDDEN, 2).reshape(TOKENS, HIDDEN)
    branch = whole.copy()
    branch[FORK:] = noise(7, (TOKENS - FORK) * HIDDEN, 2).reshape(-1, HIDDEN)
    return whole, branch


def attend(layer: deepseek.DeepseekV2Attention, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Outputs [tokens, hidden] and attention weights [heads, tokens, tokens]."""
    tokens = len(x)
    angles = deepseek.DeepseekV2RotaryEmbedding(layer.config)(torch.empty(0), torch.arange(tokens)[None])
    mask = torch.full((tokens, tokens), float("-inf"), dtype=torch.float64).triu(1)[None, None]
    with torch.no_grad():
        out, weights = layer(torch.from_numpy(x)[None], attention_mask=mask, position_embeddings=angles)[:2]
    return out[0].numpy(), weights[0].numpy()


def check_sharpness(weights: np.ndarray) -> float:
    """How many tokens an average query looks at: the exponential of the entropy of its weights."""
    late = weights[:, TOKENS // 2 :]
    entropy = -(late * np.log(np.maximum(late, 1e-300))).sum(-1)
    looked_at = float(np.exp(entropy).mean())
    print(f"a query in the second half looks at {looked_at:.1f} tokens")
    if not 2 < looked_at < TOKENS / 6:
        raise SystemExit("attention is too flat or too sharp to compare anything with")
    return looked_at


def check_mistakes(right: np.ndarray, x: np.ndarray) -> None:
    def scale(layer):
        layer.scaling = NOPE**-0.5

    def pairing(layer):  # rotating (i, i + 32) is rotating neighbours of rows in another order
        order = torch.arange(ROPE).reshape(2, ROPE // 2).T.flatten()
        q = layer.q_proj.weight.data.view(HEADS, NOPE + ROPE, HIDDEN)
        q[:, NOPE:] = q[:, NOPE + order]
        k = layer.kv_a_proj_with_mqa.weight.data
        k[LATENT:] = k[LATENT + order]

    def latent(layer):
        layer.kv_a_layernorm.weight.data[300] += 1

    for mistake in (scale, pairing, latent):
        layer = make_layer()
        mistake(layer)
        change = float(np.abs(attend(layer, x)[0] - right).max() / right.std())
        print(f"a mistake in the {mistake.__name__} changes the outputs by up to {change:.3f} deviations")
        if change < VISIBLE:
            raise SystemExit(f"the fixture would not notice a mistake in the {mistake.__name__}")


README = """# Multi-head latent attention

What `DeepseekV2Attention` of transformers {transformers} (torch {torch}, float64 but for the norm, RoPE and the
softmax, which it computes in float32) gives for {tokens} tokens, causal. Made by `scripts/oracles/mla_fixture.py`, which has
the shapes and the generator of weights and inputs; not edited by hand. An average query looks at {looked_at:.1f} tokens.

`deepseek_v2.out`, little endian:

    uint32   tokens, fork, hidden
    float32  out[tokens][hidden]
    float32  branch[tokens - fork][hidden]   of a second sequence with the same first `fork` tokens
"""


def main() -> None:
    checkout = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=checkout / "tests/data/mla", help="where the fixture goes")
    args = parser.parse_args()
    torch.set_num_threads(1)  # one order of summation, whatever the machine
    layer = make_layer()
    whole, branch = inputs()
    out, weights = attend(layer, whole)
    branch_out = attend(layer, branch)[0]
    looked_at = check_sharpness(weights)
    check_mistakes(out, whole)
    args.dir.mkdir(parents=True, exist_ok=True)
    with open(args.dir / "deepseek_v2.out", "wb") as file:
        file.write(struct.pack("<III", TOKENS, FORK, HIDDEN))
        file.write(out.astype("<f4").tobytes())
        file.write(branch_out[FORK:].astype("<f4").tobytes())
    text = README.format(
        transformers=version("transformers"), torch=version("torch").split("+")[0], tokens=TOKENS, looked_at=looked_at
    )
    (args.dir / "README.md").write_text(text)
    print(f"standard deviation of the outputs {out.std():.3f}")


if __name__ == "__main__":
    main()
