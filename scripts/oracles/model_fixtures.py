#!/usr/bin/env python3
"""Makes tests/data/models: tiny random models and the logits that `transformers` computes for them.

Each architecture is built by transformers with random weights (CPU, float32, eager attention),
exported to GGUF in F32, and run over 64 random tokens. Two checks keep a fixture honest:

- Every feature it is meant to cover must show: with that feature changed in the configuration,
  the same weights have to give clearly different logits.
- llama.cpp, where it is installed, must compute the same logits from the exported file.

Needs the environment that scripts/oracle_env.sh makes (all). Run: PYTHON model_fixtures.py
"""

from __future__ import annotations

import argparse
import importlib.metadata
import struct
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from fixture_configs import CONTEXT, VOCAB, Fixture, fixtures, randomise
from gguf_export import export

TOKENS = 64
# The least change, in the largest logit, that a changed feature must cause. Rounding is 1e-4.
VISIBLE = 0.5


def build(config: transformers.PretrainedConfig) -> torch.nn.Module:
    make_model = transformers.AutoModelForCausalLM.from_config
    return make_model(config, dtype=torch.float32, attn_implementation="eager").eval()


def logits_of(model: torch.nn.Module, ids: list[int]) -> np.ndarray:
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def logits_with_mistake(model: torch.nn.Module, overrides: dict, ids: list[int]) -> np.ndarray:
    config = type(model.config)(**{**model.config.to_dict(), **overrides})
    other = build(config)
    other.load_state_dict(model.state_dict())
    return logits_of(other, ids)


def write_logits(path: Path, ids: list[int], logits: np.ndarray) -> None:
    with open(path, "wb") as out:
        out.write(struct.pack("<II", *logits.shape))
        out.write(np.asarray(ids, "<i4").tobytes())
        out.write(logits.astype("<f4").tobytes())


def llama_cpp_logits(path: Path, ids: list[int]) -> np.ndarray | None:
    try:
        import llama_cpp
    except ImportError:
        return None
    f32 = llama_cpp.GGML_TYPE_F32
    options = {"n_ctx": CONTEXT, "logits_all": True, "verbose": False, "type_k": f32, "type_v": f32}
    model = llama_cpp.Llama(str(path), flash_attn=False, n_threads=1, **options)
    model.eval(ids)
    return np.array(model._scores[: len(ids)])


def llama_cpp_difference(fixture: Fixture, model: torch.nn.Module, ids: list[int], logits: np.ndarray) -> float | None:
    """The largest difference between transformers' logits and llama.cpp's, from the same weights."""
    with tempfile.TemporaryDirectory() as folder:
        # llama.cpp derives gemma3's attention scale from the model's size and reads no key for it.
        path = Path(folder) / "model.gguf"
        export(path, fixture, model, fold_scale=True)
        theirs = llama_cpp_logits(path, ids)
    return None if theirs is None else float(np.abs(theirs - logits).max())


def check_mistakes(fixture: Fixture, model: torch.nn.Module, ids: list[int], logits: np.ndarray) -> None:
    for mistake, overrides in fixture.mistakes.items():
        change = float(np.abs(logits_with_mistake(model, overrides, ids) - logits).max())
        print(f"    {mistake}: logits change by up to {change:.2f}")
        if change < VISIBLE:
            raise SystemExit(f"{fixture.name} would not notice: {mistake}")


def make(fixture: Fixture, folder: Path, seed: int) -> str:
    """Writes one fixture and returns its row of the table in the README."""
    torch.manual_seed(seed)
    model = build(fixture.config)
    randomise(model, fixture)
    ids = torch.randint(0, VOCAB, (TOKENS,)).tolist()
    logits = logits_of(model, ids)
    deviation = float(logits.std())
    print(f"{fixture.name}: standard deviation of the logits {deviation:.2f}")
    if deviation < 3:
        raise SystemExit(f"{fixture.name}: the logits are too flat to compare anything with")
    check_mistakes(fixture, model, ids, logits)
    difference = llama_cpp_difference(fixture, model, ids, logits)
    against = "not installed" if difference is None else f"{difference:.1e}"
    print(f"    llama.cpp: largest difference {against}")
    if difference is not None and difference > 0.02:
        raise SystemExit(f"{fixture.name}: llama.cpp computes something else from this file")
    path = folder / f"{fixture.name}.gguf"
    export(path, fixture, model)
    write_logits(folder / f"{fixture.name}.logits", ids, logits)
    return f"| `{fixture.name}` | {fixture.about} | {deviation:.2f} | {against} |"


README = """# Tiny models, and the logits they must give

Random weights of {arches}, and the logits that `transformers` computes for {tokens} random tokens
(CPU, float32, eager attention). Made by `scripts/oracles/model_fixtures.py`; not edited by hand.

| file | covers | deviation of the logits | llama.cpp's largest difference |
| --- | --- | --- | --- |
{rows}

The last column compares with llama.cpp on the same weights, with F32 keys and values, and shows that
the files mean what they should; the larger ones are mostly its table of half-precision GELU values.

`NAME.gguf` is the model, all F32, with a vocabulary of {vocab} tokens. `gemma3` stores its attention scale
as `gemma3.attention.scale`; without that key the scale would be 1/sqrt(head dimension). llama.cpp reads
no such key, so for it the scale was multiplied into the weights of the query norm.

`NAME.logits`, little endian:

    uint32   n_tokens
    uint32   n_vocab
    int32    ids[n_tokens]
    float32  logits[n_tokens][n_vocab]     row i: after tokens 0 ... i

Versions: transformers {transformers}, torch {torch}, gguf {gguf}, llama-cpp-python {llama}.
"""


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def write_readme(path: Path, rows: list[str]) -> None:
    text = README.format(
        arches="llama, gemma3, qwen2, qwen3 and gpt2",
        rows="\n".join(rows),
        tokens=TOKENS,
        vocab=VOCAB,
        transformers=version("transformers"),
        torch=version("torch").split("+")[0],
        gguf=version("gguf"),
        llama=version("llama-cpp-python"),
    )
    path.write_text(text)


def main() -> None:
    checkout = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=checkout / "tests/data/models", help="where the fixtures go")
    parser.add_argument("--seed", type=int, default=20)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)  # one order of summation, whatever the machine
    args.dir.mkdir(parents=True, exist_ok=True)
    rows = [make(fixture, args.dir, args.seed + i) for i, fixture in enumerate(fixtures())]
    write_readme(args.dir / "README.md", rows)


if __name__ == "__main__":
    main()
