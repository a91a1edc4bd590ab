"""Running the built program from the measuring scripts."""

from __future__ import annotations

import json
import subprocess
import sys


def quire_json(quire: str, model: str, command: str, *options: str) -> dict:
    """What `quire COMMAND --json` printed; ends the script with the program's own words when it fails."""
    arguments = [quire, command, *(["-m", model] if model else []), "--json", *options]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments[:4])}: {done.stderr}")
    return json.loads(done.stdout)


def version(quire: str) -> str:
    return subprocess.run([quire, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
