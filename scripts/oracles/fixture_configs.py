"""The tiny models of tests/data/models: their configurations, and weights that make every part matter."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import torch
import transformers

VOCAB = 96
CONTEXT = 128


@dataclass
class Fixture:
    name: str
    arch: str  # as GGUF spells it
    about: str
    config: transformers.PretrainedConfig
    # What a wrong implementation might do, as overrides of the configuration.
    mistakes: dict[str, dict] = field(default_factory=dict)


def rope(theta: float = 10000.0, **scaling) -> dict:
    return {"rope_type": "default", "rope_theta": theta, **scaling}


LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,  # so short that all three kinds of frequency occur
}


def common(**extra) -> dict:
    sizes = {
        "vocab_size": VOCAB,
        "max_position_embeddings": CONTEXT,
        "hidden_size": 48,
        "intermediate_size": 72,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "attn_implementation": "eager",
    }
    return {**sizes, **extra}


def llama(name: str, about: str, layers: int, rope_parameters: dict, mistakes: dict) -> Fixture:
    options = common(num_hidden_layers=layers, rms_norm_eps=1e-5, tie_word_embeddings=False)
    config = transformers.LlamaConfig(**options, rope_parameters=rope_parameters)
    return Fixture(name, "llama", about, config, mistakes)


def ropes(local: dict, full: dict) -> dict:
    return {"rope_parameters": {"sliding_attention": local, "full_attention": full}}


def gemma3() -> Fixture:
    layers = 7
    kinds = ["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(layers)]
    linear = {"rope_type": "linear", "factor": 8.0}
    local, full = rope(10000.0), rope(1e6, **linear)
    config = transformers.Gemma3TextConfig(
        **common(
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=layers,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=16,
            query_pre_attn_scalar=6,
            sliding_window=8,
            layer_types=kinds,
            rms_norm_eps=1e-6,
            **ropes(local, full),
        )
    )
    mistakes = {
        "window of 9": {"sliding_window": 9},
        "window of 7": {"sliding_window": 7},
        "no global layer": {"layer_types": ["sliding_attention"] * layers},
        "scale of 1/sqrt(head_dim)": {"query_pre_attn_scalar": 16},
        "no scaling of the global rope": ropes(local, rope(1e6)),
        "scaling of the local rope too": ropes(rope(10000.0, **linear), full),
        "one rope base": ropes(rope(1e6), full),
        "SiLU": {"hidden_activation": "silu"},
    }
    about = "7 layers, window 8, layer 5 global with linear rope scaling 8, QK norm, attention scale 1/sqrt(6), tied"
    return Fixture("gemma3", "gemma3", about, config, mistakes)


def fixtures() -> list[Fixture]:
    default, linear, llama3 = rope(), rope(rope_type="linear", factor=4.0), rope(**LLAMA3_SCALING)
    no_scaling = {"no rope scaling": {"rope_parameters": default}}
    qwen2 = transformers.Qwen2Config(**common(rope_parameters=rope(1e6), rms_norm_eps=1e-6, tie_word_embeddings=False))
    qwen3 = transformers.Qwen3Config(
        **common(
            head_dim=16, intermediate_size=56, rope_parameters=rope(1e6), rms_norm_eps=1e-6, tie_word_embeddings=True
        )
    )
    gpt2 = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=CONTEXT, n_embd=48, n_layer=3, n_head=4, n_inner=80, attn_implementation="eager"
    )
    theta = {"another rope base": {"rope_parameters": rope(5e5)}}
    relu = {"ReLU": {"activation_function": "relu"}}
    return [
        llama("llama", "grouped-query attention: 4 heads, 2 key/value heads", 3, default, theta),
        llama("llama_rope_llama3", "rope scaling of type llama3, as rope_freqs.weight", 2, llama3, no_scaling),
        llama("llama_rope_linear", "rope scaling of type linear, factor 4", 2, linear, no_scaling),
        gemma3(),
        Fixture("qwen2", "qwen2", "biases on query, key and value", qwen2, theta),
        Fixture("qwen3", "qwen3", "QK norm; head dimension 16 where width / heads is 12; tied", qwen3, theta),
        Fixture("gpt2", "gpt2", "learned positions, LayerNorm, biases, tied", gpt2, relu),
    ]


def randomise(model: torch.nn.Module, fixture: Fixture) -> None:
    """Weights of sizes that make every part matter, where the default ones would be nearly linear."""
    tied = model.config.tie_word_embeddings
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape)
        if "norm" in name or ".ln_" in name:
            # transformers' Gemma stores the norm weight less one.
            mean = 1.0 if name.endswith("weight") and fixture.arch != "gemma3" else 0.0
            value = mean + 0.3 * noise
        elif name.endswith("bias"):
            value = 0.3 * noise
        elif "lm_head" in name or (tied and ("embed_tokens" in name or "wte" in name)):
            value = 4.0 * noise / math.sqrt(weight.shape[1])  # logits with a standard deviation near 4
        elif "embed_tokens" in name or "wpe" in name:
            value = 0.5 * noise
        else:
            fan_in = weight.shape[0] if fixture.arch == "gpt2" else weight.shape[1]
            # Sharper attention than a gain of 1 would give: nearly uniform weights hide a wrong mask.
            sharp = 1.6 if re.search(r"q_proj|k_proj|c_attn", name) else 1.0
            value = sharp * noise / math.sqrt(fan_in)
        weight.data.copy_(value)
