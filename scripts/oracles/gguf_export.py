"""Writes a `transformers` model as GGUF, in F32, with the names and layouts that llama.cpp's converter uses."""

from __future__ import annotations

import math
import re
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from fixture_configs import VOCAB, Fixture

TOP_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd",
    "transformer.ln_f": "output_norm",
}
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "ln_1": "attn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
GEMMA_LAYER_NAMES = {
    **LAYER_NAMES,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def gguf_name(name: str, arch: str) -> str:
    stem, kind = name.rsplit(".", 1)
    if layer := re.fullmatch(r"(?:model\.layers|transformer\.h)\.(\d+)\.(.+)", stem):
        names = GEMMA_LAYER_NAMES if arch == "gemma3" else LAYER_NAMES
        return f"blk.{layer[1]}.{names[layer[2]]}.{kind}"
    return f"{TOP_NAMES[stem]}.{kind}"


def interleave(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head from (first half, second half) to adjacent pairs: GGUF's llama rotates neighbours."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def gguf_tensors(model: torch.nn.Module, arch: str) -> dict[str, np.ndarray]:
    config, tensors = model.config, {}
    for name, weight in model.named_parameters():  # names a tied weight once, as GGUF wants it
        value, target = weight.detach().numpy(), gguf_name(name, arch)
        if arch == "gpt2" and re.search(r"\.(c_attn|c_proj|c_fc)\.weight$", name):
            value = value.T
        if arch == "gemma3" and target.endswith("norm.weight"):
            value = value + np.float32(1)
        if arch == "llama" and target.endswith("attn_q.weight"):
            value = interleave(value, config.num_attention_heads)
        if arch == "llama" and target.endswith("attn_k.weight"):
            value = interleave(value, config.num_key_value_heads)
        tensors[target] = np.ascontiguousarray(value)
    return tensors


def llama3_factors(config: transformers.PretrainedConfig) -> np.ndarray:
    """By how much each rotary frequency is divided: 1 if fast, `factor` if slow, between the two in between."""
    p = config.rope_parameters
    frequency = p["rope_theta"] ** -(np.arange(0, config.head_dim, 2) / config.head_dim)
    turns = p["original_max_position_embeddings"] * frequency / (2 * np.pi)  # over the original context
    low, high = p["low_freq_factor"], p["high_freq_factor"]
    share = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - share) / p["factor"] + share)).astype(np.float32)


def add_vocabulary(writer: gguf.GGUFWriter) -> None:
    # One control token, the space and the newline as byte-level BPE writes them, and "!" to "}".
    tokens = ["<|endoftext|>", "\u0120", "\u010a"] + [chr(c) for c in range(33, 126)]
    assert len(tokens) == VOCAB
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (VOCAB - 1))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)


def add_rope(writer: gguf.GGUFWriter, config: transformers.PretrainedConfig, head_dim: int) -> None:
    parameters = config.rope_parameters
    full = parameters.get("full_attention", parameters)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(full["rope_theta"])
    if "sliding_attention" in parameters:
        writer.add_rope_freq_base_swa(parameters["sliding_attention"]["rope_theta"])
    if full["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(full["factor"])


def export(path: Path, fixture: Fixture, model: torch.nn.Module, fold_scale: bool = False) -> None:
    """Writes the model as GGUF. fold_scale moves gemma3's attention scale into the query norm."""
    config, tensors = model.config, gguf_tensors(model, fixture.arch)
    writer = gguf.GGUFWriter(path, fixture.arch)
    heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    writer.add_name(f"fixture {fixture.name}")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(heads)
    writer.add_vocab_size(VOCAB)
    if fixture.arch == "gpt2":
        writer.add_feed_forward_length(config.n_inner)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        add_rope(writer, config, head_dim)
        if config.rope_parameters.get("rope_type") == "llama3":
            tensors["rope_freqs.weight"] = llama3_factors(config)
    if fixture.arch == "gemma3":
        writer.add_sliding_window(config.sliding_window)
        if fold_scale:
            for name in [n for n in tensors if n.endswith("attn_q_norm.weight")]:
                tensors[name] = tensors[name] * np.float32(math.sqrt(head_dim / config.query_pre_attn_scalar))
        else:
            writer.add_attention_scale(config.query_pre_attn_scalar**-0.5)
    add_vocabulary(writer)
    for name, value in tensors.items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
