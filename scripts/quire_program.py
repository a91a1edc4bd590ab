"""Running the built program from the measuring scripts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterable, Iterator


def threads_of(jobs: int) -> list[str]:
    """The option that gives each of so many programs at once its share of the processors."""
    return ["-t", str(max(1, len(os.sched_getaffinity(0)) // jobs))] if jobs > 1 else []


def in_order(jobs: int, do: Callable[[Any], Any], of: Iterable[Any]) -> Iterator[Any]:
    """do(x) for every x, so many at once."""
    if jobs <= 1:
        yield from map(do, of)
        return
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(do, of)


def quire_json(quire: str, model: str, command: str, *options: str) -> dict:
    """What `quire COMMAND --json` printed; ends the script with the program's own words when it fails."""
    arguments = [quire, command, *(["-m", model] if model else []), "--json", *options]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments[:4])}: {done.stderr}")
    return json.loads(done.stdout)


def version(quire: str) -> str:
    return subprocess.run([quire, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
