#!/usr/bin/env python3
"""Writes a small GGUF model with random weights: right in every shape and name, and full of nonsense.

    scripts/tiny_model.py --arch llama -o tiny.gguf
    scripts/tiny_model.py --arch gemma3 --layers 12 --width 256 --window 64 --type q8_0 -o tiny.gguf

Uses nothing but the standard library, takes seconds, and gives the same file for the same
options. The vocabulary works (any text can be encoded and decoded), and there is a chat template.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

ALIGNMENT = 32
ARCHITECTURES = ("llama", "gemma3", "qwen2", "qwen3", "gpt2")

# GGUF's numbers for metadata values and for tensor types.
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TENSOR_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8}
FILE_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 7}
# (values per block, bytes per block)
BLOCKS = {"f32": (1, 4), "f16": (1, 2), "q4_0": (32, 18), "q8_0": (32, 34)}

NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6  # token types

# Enough English for a few merges to happen; "_" stands for the space.
WORDS = "_the _and _to _of _in _is _that _for _was _on _with _you _it _be _are ing er ed ly es th he an 00".split()

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ 'OPEN' + message['role'] + '\\n' + message['content'] + 'CLOSE\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ 'OPENassistant\\n' }}{% endif %}"
)


def gguf_string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(kind: int, value) -> bytes:
    if kind == STRING:
        return gguf_string(value)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}[kind], value)


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple[int, ...]  # GGUF's order: the contiguous dimension first
    kind: str
    mean: float
    sigma: float

    def byte_count(self) -> int:
        values, size = BLOCKS[self.kind]
        count = 1
        for n in self.shape:
            count *= n
        return count // values * size


class Metadata:
    """Key/value pairs in GGUF's encoding, in the order in which they were added."""

    def __init__(self):
        self.count = 0
        self.data = bytearray()

    def add(self, key: str, kind: int, value) -> None:
        self.data += gguf_string(key) + struct.pack("<I", kind) + gguf_value(kind, value)
        self.count += 1

    def add_array(self, key: str, kind: int, values) -> None:
        self.data += gguf_string(key) + struct.pack("<IIQ", ARRAY, kind, len(values))
        for value in values:
            self.data += gguf_value(kind, value)
        self.count += 1


def random_bytes(tensor: Tensor, rng: random.Random) -> bytes:
    """The tensor's stored form, of the wanted mean and standard deviation."""
    values, size = BLOCKS[tensor.kind]
    blocks = tensor.byte_count() // size
    if tensor.kind in ("f32", "f16"):
        # One random byte picks one of 256 quantiles of the normal distribution: fast in plain Python.
        normal = NormalDist(tensor.mean, tensor.sigma)
        code = "<f" if tensor.kind == "f32" else "<e"
        table = [struct.pack(code, normal.inv_cdf((i + 0.5) / 256)) for i in range(256)]
        return b"".join(map(table.__getitem__, rng.randbytes(blocks)))
    # Quantised blocks are one common scale and uniform random quants. A uniform byte has standard
    # deviation 256 / sqrt(12) and a uniform nibble 16 / sqrt(12).
    levels = 256 if tensor.kind == "q8_0" else 16
    scale = struct.pack("<e", tensor.sigma * 12**0.5 / levels)
    quants = rng.randbytes(blocks * (size - 2))
    return b"".join(scale + quants[i : i + size - 2] for i in range(0, len(quants), size - 2))


def write_gguf(path: Path, metadata: Metadata, tensors: list[Tensor], seed: int) -> None:
    rng = random.Random(seed)
    header = bytearray(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), metadata.count)) + metadata.data
    offset = 0
    for tensor in tensors:
        header += gguf_string(tensor.name) + struct.pack("<I", len(tensor.shape))
        header += struct.pack(f"<{len(tensor.shape)}Q", *tensor.shape)
        header += struct.pack("<IQ", TENSOR_TYPES[tensor.kind], offset)
        offset += -(-tensor.byte_count() // ALIGNMENT) * ALIGNMENT
    with open(path, "wb") as out:
        out.write(header + bytes(-len(header) % ALIGNMENT))
        for tensor in tensors:
            data = random_bytes(tensor, rng)
            out.write(data + bytes(-len(data) % ALIGNMENT))


def byte_alphabet() -> list[str]:
    """The printable character that GPT-2's BPE writes for each byte."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    names = {byte: chr(byte) for byte in printable}
    names |= {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [names[byte] for byte in range(256)]


def merge_steps(words: list[str], space: str) -> list[tuple[str, str]]:
    """Left-to-right merges that build each word from its characters, each pair once."""
    steps: dict[tuple[str, str], None] = {}
    for word in (w.replace("_", space) for w in words):
        for end in range(1, len(word)):
            steps.setdefault((word[:end], word[end]))
    return list(steps)


def fill(tokens: list[str], types: list[int], size: int) -> None:
    if len(tokens) > size:
        raise SystemExit(f"tiny_model: --vocab must be at least {len(tokens)} for this architecture")
    for i in range(size - len(tokens)):
        tokens.append(f"<unused{i}>")
        types.append(UNUSED)


def add_bpe_vocabulary(metadata: Metadata, pre: str, size: int) -> None:
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    merges = merge_steps(WORDS, byte_alphabet()[ord(" ")])
    tokens = specials + byte_alphabet() + [a + b for a, b in merges]
    types = [CONTROL] * len(specials) + [NORMAL] * (len(tokens) - len(specials))
    fill(tokens, types, size)
    metadata.add("tokenizer.ggml.model", STRING, "gpt2")
    metadata.add("tokenizer.ggml.pre", STRING, pre)
    metadata.add_array("tokenizer.ggml.tokens", STRING, tokens)
    metadata.add_array("tokenizer.ggml.token_type", INT32, types)
    metadata.add_array("tokenizer.ggml.merges", STRING, [f"{a} {b}" for a, b in merges])
    metadata.add("tokenizer.ggml.bos_token_id", UINT32, 0)
    metadata.add("tokenizer.ggml.eos_token_id", UINT32, 2)
    metadata.add("tokenizer.ggml.padding_token_id", UINT32, 0)
    metadata.add("tokenizer.ggml.add_bos_token", BOOL, False)
    metadata.add("tokenizer.chat_template", STRING, chat_template("<|im_start|>", "<|im_end|>"))


def add_spm_vocabulary(metadata: Metadata, size: int) -> None:
    specials = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    space = "\u2581"
    pieces = [a + b for a, b in merge_steps(WORDS, space)]
    pieces += [space] + [chr(c) for c in range(ord("!"), ord("~") + 1)]
    tokens = specials + [f"<0x{byte:02X}>" for byte in range(256)] + pieces
    types = [CONTROL] * 3 + [UNKNOWN] + [CONTROL] * 2 + [BYTE] * 256 + [NORMAL] * len(pieces)
    # Only pieces take part in merging, and the one with the higher score is merged first.
    scores = [0.0] * (len(tokens) - len(pieces)) + [float(-i) for i in range(len(pieces))]
    fill(tokens, types, size)
    scores += [0.0] * (len(tokens) - len(scores))
    metadata.add("tokenizer.ggml.model", STRING, "llama")
    metadata.add("tokenizer.ggml.pre", STRING, "default")
    metadata.add_array("tokenizer.ggml.tokens", STRING, tokens)
    metadata.add_array("tokenizer.ggml.scores", FLOAT32, scores)
    metadata.add_array("tokenizer.ggml.token_type", INT32, types)
    metadata.add("tokenizer.ggml.bos_token_id", UINT32, 2)
    metadata.add("tokenizer.ggml.eos_token_id", UINT32, 1)
    metadata.add("tokenizer.ggml.eot_token_id", UINT32, 5)
    metadata.add("tokenizer.ggml.unknown_token_id", UINT32, 3)
    metadata.add("tokenizer.ggml.padding_token_id", UINT32, 0)
    metadata.add("tokenizer.ggml.add_bos_token", BOOL, True)
    metadata.add("tokenizer.ggml.add_space_prefix", BOOL, False)
    metadata.add("tokenizer.chat_template", STRING, chat_template("<start_of_turn>", "<end_of_turn>"))


def chat_template(opening: str, closing: str) -> str:
    return CHAT_TEMPLATE.replace("OPEN", opening).replace("CLOSE", closing)


def model_metadata(o: argparse.Namespace) -> Metadata:
    m = Metadata()
    m.add("general.architecture", STRING, o.arch)
    m.add("general.name", STRING, f"tiny random {o.arch}")
    m.add("general.file_type", UINT32, FILE_TYPES[o.type])
    m.add("general.quantization_version", UINT32, 2)
    m.add(f"{o.arch}.context_length", UINT32, o.ctx)
    m.add(f"{o.arch}.embedding_length", UINT32, o.width)
    m.add(f"{o.arch}.block_count", UINT32, o.layers)
    m.add(f"{o.arch}.feed_forward_length", UINT32, o.ff)
    m.add(f"{o.arch}.attention.head_count", UINT32, o.heads)
    m.add(f"{o.arch}.vocab_size", UINT32, o.vocab)
    if o.arch == "gpt2":
        m.add("gpt2.attention.layer_norm_epsilon", FLOAT32, 1e-5)
    else:
        m.add(f"{o.arch}.attention.head_count_kv", UINT32, o.kv_heads)
        m.add(f"{o.arch}.attention.key_length", UINT32, o.head_dim)
        m.add(f"{o.arch}.attention.value_length", UINT32, o.head_dim)
        m.add(f"{o.arch}.attention.layer_norm_rms_epsilon", FLOAT32, 1e-6)
        m.add(f"{o.arch}.rope.dimension_count", UINT32, o.head_dim)
        m.add(f"{o.arch}.rope.freq_base", FLOAT32, 10000.0 if o.arch == "llama" else 1e6)
    if o.arch == "gemma3":
        m.add("gemma3.attention.sliding_window", UINT32, o.window)
        add_spm_vocabulary(m, o.vocab)
    else:
        add_bpe_vocabulary(m, "qwen2" if o.arch.startswith("qwen") else "gpt-2", o.vocab)
    return m


class TensorList:
    """Builds the list of tensors; weights keep the variance of what flows through them."""

    def __init__(self, kind: str):
        self.kind = kind
        self.tensors: list[Tensor] = []

    def matrix(self, name: str, fan_in: int, fan_out: int, gain: float = 1.0) -> None:
        self.tensors.append(Tensor(f"{name}.weight", (fan_in, fan_out), self.kind, 0.0, gain * fan_in**-0.5))

    def vector(self, name: str, size: int, mean: float) -> None:
        self.tensors.append(Tensor(name, (size,), "f32", mean, 0.1))


def gpt2_layer(t: TensorList, block: str, o: argparse.Namespace) -> None:
    for norm in ("attn_norm", "ffn_norm"):
        t.vector(f"{block}.{norm}.weight", o.width, 1.0)
        t.vector(f"{block}.{norm}.bias", o.width, 0.0)
    matrices = (("attn_qkv", o.width, 3 * o.width), ("attn_output", o.width, o.width))
    for name, fan_in, fan_out in (*matrices, ("ffn_up", o.width, o.ff), ("ffn_down", o.ff, o.width)):
        t.matrix(f"{block}.{name}", fan_in, fan_out)
        t.vector(f"{block}.{name}.bias", fan_out, 0.0)


def llama_like_layer(t: TensorList, block: str, o: argparse.Namespace) -> None:
    q_width, kv_width = o.heads * o.head_dim, o.kv_heads * o.head_dim
    t.vector(f"{block}.attn_norm.weight", o.width, 1.0)
    for name, size in (("attn_q", q_width), ("attn_k", kv_width), ("attn_v", kv_width)):
        t.matrix(f"{block}.{name}", o.width, size)
        if o.arch == "qwen2":
            t.vector(f"{block}.{name}.bias", size, 0.0)
    if o.arch in ("qwen3", "gemma3"):
        t.vector(f"{block}.attn_q_norm.weight", o.head_dim, 1.0)
        t.vector(f"{block}.attn_k_norm.weight", o.head_dim, 1.0)
    t.matrix(f"{block}.attn_output", q_width, o.width)
    if o.arch == "gemma3":
        t.vector(f"{block}.post_attention_norm.weight", o.width, 1.0)
    t.vector(f"{block}.ffn_norm.weight", o.width, 1.0)
    t.matrix(f"{block}.ffn_gate", o.width, o.ff)
    t.matrix(f"{block}.ffn_up", o.width, o.ff)
    t.matrix(f"{block}.ffn_down", o.ff, o.width)
    if o.arch == "gemma3":
        t.vector(f"{block}.post_ffw_norm.weight", o.width, 1.0)


def model_tensors(o: argparse.Namespace) -> list[Tensor]:
    t = TensorList(o.type)
    # A gain of 3 on what makes the logits keeps greedy choices clear of rounding noise. Gemma adds its
    # embeddings scaled by sqrt(width): with that gain a token would drown all else and repeat itself.
    t.matrix("token_embd", o.width, o.vocab, gain=0.7 if o.arch == "gemma3" else 3.0)
    if o.arch == "gpt2":
        t.tensors.append(Tensor("position_embd.weight", (o.width, o.ctx), "f32", 0.0, o.width**-0.5))
    for i in range(o.layers):
        (gpt2_layer if o.arch == "gpt2" else llama_like_layer)(t, f"blk.{i}", o)
    t.vector("output_norm.weight", o.width, 1.0)
    if o.arch == "gpt2":
        t.vector("output_norm.bias", o.width, 0.0)
    if o.arch != "gemma3":  # Gemma multiplies by its embeddings again
        t.matrix("output", o.width, o.vocab, gain=3.0)
    return t.tensors


def positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("must be positive")
    return value


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Write a small GGUF model with random weights.")
    parser.add_argument("--arch", choices=ARCHITECTURES, default="llama")
    parser.add_argument("--layers", type=positive, help="default 2; for gemma3 7, so that one layer is global")
    parser.add_argument("--width", type=positive, default=128, help="embedding length (default 128)")
    parser.add_argument("--heads", type=positive, default=4, help="query heads (default 4)")
    parser.add_argument("--kv-heads", type=positive, help="key/value heads (default: half the query heads; gpt2: all)")
    parser.add_argument("--head-dim", type=positive, help="default: width / heads")
    parser.add_argument("--ff", type=positive, help="feed-forward length (default: twice the width)")
    parser.add_argument("--vocab", type=positive, default=512, help="vocabulary size (default 512)")
    parser.add_argument("--ctx", type=positive, default=2048, help="context length (default 2048)")
    parser.add_argument("--window", type=positive, help="gemma3: tokens a local layer sees (default 64)")
    parser.add_argument("--type", choices=sorted(TENSOR_TYPES), default="f32", help="type of the matrices")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", dest="output", type=Path, required=True, metavar="FILE")
    o = parser.parse_args()

    o.layers = o.layers or (7 if o.arch == "gemma3" else 2)
    o.kv_heads = o.kv_heads or (o.heads if o.arch == "gpt2" else max(1, o.heads // 2))
    o.head_dim = o.head_dim or o.width // o.heads
    o.ff = o.ff or 2 * o.width
    if o.window and o.arch != "gemma3":
        parser.error("--window is for gemma3; the others attend to everything")
    o.window = o.window or 64
    if o.heads % o.kv_heads:
        parser.error("--heads must be a multiple of --kv-heads")
    if o.head_dim % 2:
        parser.error("the head dimension must be even")
    if o.arch in ("gpt2", "qwen2") and o.head_dim * o.heads != o.width:
        parser.error(f"{o.arch} needs heads x head-dim = width")
    if o.arch == "gpt2" and o.kv_heads != o.heads:
        parser.error("gpt2 has as many key/value heads as heads")
    block = BLOCKS[o.type][0]
    if any(n % block for n in (o.width, o.heads * o.head_dim, o.ff)):
        parser.error(f"{o.type} needs --width, --ff and heads x head-dim to be multiples of {block}")
    return o


def main() -> int:
    options = parse_options()
    tensors = model_tensors(options)
    write_gguf(options.output, model_metadata(options), tensors, options.seed)
    print(f"{options.output}: {options.arch}, {len(tensors)} tensors, {options.output.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
