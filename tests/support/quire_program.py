"""Running the built program in tests, on tiny models made on the spot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
QUIRE = str(Path(os.environ.get("QUIRE_BIN", ROOT / "build/quire")).absolute())
SMOLLM2 = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA3 = ROOT / "models/gemma-3-270m-q4_k_m.gguf"


def quire(*arguments: str, stdin: str | None = None, env: dict | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [QUIRE, *map(str, arguments)],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "QUIRE_MODEL": "", **(env or {})},
    )


def quire_json(*arguments: str, **kwargs) -> dict:
    done = quire(*arguments, "--json", **kwargs)
    if done.returncode != 0:
        raise AssertionError(f"quire {' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


_FOLDER = tempfile.TemporaryDirectory(prefix="quire-test-")


@lru_cache
def tiny_model(arch: str = "llama", *options: str) -> Path:
    path = Path(_FOLDER.name) / f"{arch}{len(options)}{abs(hash(options))}.gguf"
    script = ROOT / "scripts/tiny_model.py"
    subprocess.run([sys.executable, str(script), "--arch", arch, "-o", str(path), *options], check=True, capture_output=True)
    return path
