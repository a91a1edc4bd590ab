#!/usr/bin/env python3
"""Makes tests/data/quants: blocks of every weight type, and the values that the gguf package reads from them.

Blocks are random bytes with finite scales, so every quant, packed scale and sign occurs. Needs the
environment that scripts/oracle_env.sh makes. Run: PYTHON quant_fixtures.py
"""

from __future__ import annotations

import argparse
import importlib.metadata
import struct
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

# Where in a block its f16 numbers sit; all other bytes may be anything.
HALF_OFFSETS = {
    Type.Q4_0: (0,),
    Type.Q4_1: (0, 2),
    Type.Q5_0: (0,),
    Type.Q5_1: (0, 2),
    Type.Q8_0: (0,),
    Type.Q2_K: (80, 82),
    Type.Q3_K: (108,),
    Type.Q4_K: (0, 2),
    Type.Q5_K: (0, 2),
    Type.Q6_K: (208,),
    Type.IQ4_NL: (0,),
    Type.IQ4_XS: (0,),
}

README = """# Blocks of every weight type, and what they mean

Made by `scripts/oracles/quant_fixtures.py` with gguf {version} and numpy {numpy}; not edited by hand.
`TYPE.bin`, little endian:

    uint32   n_values
    uint32   n_bytes
    uint8    blocks[n_bytes]
    float32  values[n_values]     what gguf.quants.dequantize gives for these blocks
"""


def random_halves(rng: np.random.Generator, count: int) -> np.ndarray:
    """Finite f16 numbers of the sizes that scales have, of both signs, with the odd zero and subnormal."""
    halves = (np.exp2(rng.uniform(-13, 1, count)) * rng.choice([-1, 1], count)).astype(np.float16)
    halves[rng.random(count) < 0.1] = np.float16(0)
    halves[rng.random(count) < 0.1] = np.float16(3e-7)
    return halves


def plain_values(kind: Type, rng: np.random.Generator, count: int) -> np.ndarray:
    values = rng.standard_normal(count).astype(np.float32)
    values[:4] = (0.0, -0.0, 6e-8, -65504.0)  # both zeros, a subnormal f16, the largest f16
    if kind == Type.BF16:
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return values.astype(np.float16 if kind == Type.F16 else np.float32).view(np.uint8)


def random_blocks(kind: Type, rng: np.random.Generator, count: int) -> np.ndarray:
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    blocks[0], blocks[1] = 0x00, 0xFF  # the extremes of every field
    for offset in HALF_OFFSETS[kind]:
        halves = random_halves(rng, count)
        halves[:4] = (0.5, -0.25, 0.013, -0.0071)  # so that no edge block is all zeros
        blocks[:, offset : offset + 2] = halves.reshape(count, 1).view(np.uint8)
    return blocks.reshape(-1)


def write_fixture(folder: Path, kind: Type, rng: np.random.Generator) -> None:
    block_values = gguf.GGML_QUANT_SIZES[kind][0]
    if block_values == 1:
        data = plain_values(kind, rng, 64)
    else:
        data = random_blocks(kind, rng, 6 if block_values == 256 else 24)
    values = gguf.quants.dequantize(data, kind).astype("<f4").reshape(-1)
    assert np.isfinite(values).all(), kind
    path = folder / f"{kind.name}.bin"
    path.write_bytes(struct.pack("<II", values.size, data.size) + data.tobytes() + values.tobytes())
    print(f"{path.name}: {values.size} values, {path.stat().st_size} bytes")


def main() -> None:
    checkout = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=checkout / "tests/data/quants", help="where the fixtures go")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(args.seed)
    for kind in (Type.F32, Type.F16, Type.BF16, *HALF_OFFSETS):
        write_fixture(args.dir, kind, rng)
    version = importlib.metadata.version("gguf")
    (args.dir / "README.md").write_text(README.format(version=version, numpy=np.__version__))


if __name__ == "__main__":
    main()
