#!/usr/bin/env python3
"""Runs clang-tidy on the given sources, but only where something changed since they were last found clean.

    scripts/tidy.py --build build/dev SOURCE ...

What a source looks like to the compiler, comments and macros included, is hashed together with the checks and the version
of clang-tidy. Hashes of clean sources are kept in ~/.cache/quire/tidy; what is unused for 30 days is forgotten.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "quire/tidy"
TIDY = "clang-tidy-14"
KEPT_SECONDS = 30 * 24 * 3600


def preprocess_command(entry: dict) -> list[str]:
    words = shlex.split(entry["command"])
    if Path(words[0]).name == "ccache":
        words = words[1:]
    at = words.index("-o")
    words = words[:at] + words[at + 2 :]
    return [w for w in words if w != "-c"] + ["-E", "-C", "-P", "-dD"]


def name_of(entry: dict, checks: bytes) -> str | None:
    """Of what clang-tidy would see; nothing where it cannot be preprocessed."""
    done = subprocess.run(preprocess_command(entry), cwd=entry["directory"], capture_output=True)
    if done.returncode != 0:
        return None
    anywhere = done.stdout.replace(os.fsencode(ROOT), b"")  # another checkout is as clean
    return hashlib.sha256(checks + b"\0" + anywhere).hexdigest()


def check(entry: dict, build: str, checks: bytes) -> tuple[bool, bool, str]:
    """Whether it is clean, whether that was known, and what clang-tidy said."""
    name = name_of(entry, checks)
    if name is not None and (CACHE / name).exists():
        (CACHE / name).touch()
        return True, True, ""
    done = subprocess.run([TIDY, "-p", build, "--quiet", "--warnings-as-errors=*", entry["file"]], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0 and name is not None:
        (CACHE / name).touch()
    noise = ("warnings generated", "warnings treated", "Suppressed", "Use -header-filter")
    said = [line for line in (done.stdout + done.stderr).splitlines() if not any(word in line for word in noise)]
    return done.returncode == 0, False, "\n".join(said)


def forget_unused() -> None:
    for path in CACHE.iterdir():
        if time.time() - path.stat().st_mtime > KEPT_SECONDS:
            path.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/dev", help="where compile_commands.json lies")
    parser.add_argument("sources", nargs="+")
    options = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    forget_unused()
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    checks = version + (ROOT / ".clang-tidy").read_bytes()
    entries = {os.path.realpath(os.path.join(e["directory"], e["file"])): e for e in json.loads((ROOT / options.build / "compile_commands.json").read_text())}
    wanted = []
    for source in options.sources:
        entry = entries.get(os.path.realpath(source))
        if entry is None:
            sys.exit(f"tidy: {source} is not in {options.build}/compile_commands.json; configure that build first")
        wanted.append(entry)
    clean = known = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, (good, cached, said) in enumerate(pool.map(lambda e: check(e, options.build, checks), wanted), 1):
            clean += good
            known += cached
            if said and not good:
                print(said, flush=True)
            if sys.stderr.isatty():
                print(f"\r{number} of {len(wanted)}", end="\r" if number < len(wanted) else "\n", file=sys.stderr, flush=True)
    print(f"tidy: {clean} of {len(wanted)} sources clean, {known} of them known from before")
    return 0 if clean == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
