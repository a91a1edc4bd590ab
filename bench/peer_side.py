"""What a peer's side of bench/peers.py does, whichever engine it is: one line of JSON asks, one answers."""

from __future__ import annotations

import json
import os
import sys
from typing import Callable


def answer(about: Callable[[], dict], worker: Callable, first_token: Callable[[str, str, int], None]) -> None:
    """about(): the first line. worker(): has measure(request), in milliseconds. first_token: of MODEL TEXT THREADS."""
    if sys.argv[1:2] == ["--first-token"]:
        first_token(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        sys.stdout.flush()
        os._exit(0)
    print(json.dumps(about()), flush=True)
    engine = worker()
    for line in sys.stdin:
        try:
            said = {"ms": engine.measure(json.loads(line))}
        except Exception as error:  # an engine that cannot do one thing may do the next
            said = {"error": str(error)}
        print(json.dumps(said), flush=True)
