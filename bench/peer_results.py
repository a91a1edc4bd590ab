"""What bench/peers.py has measured so far: a file that is resumed, and the statistics of it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from peer_rows import Comparison, Row


class Results:
    """Samples by row and contender, as many of each contender of a row: they were taken in turns."""

    def __init__(self, path: Path, identity: dict):
        self.path = path
        self.document = {"identity": identity, "rows": {}, "tuned": {}}

    @staticmethod
    def open(path: Path, identity: dict, fresh: bool = False) -> Results:
        """What the file has where it is about the same programs on the same machine; of an older Quire only what peers were set to."""
        results = Results(path, identity)
        if fresh or not path.exists():
            return results
        earlier = json.loads(path.read_text(encoding="utf-8"))
        if any(earlier["identity"].get(key) != identity[key] for key in identity if key not in ("quire", "commit")):
            return results
        results.document["tuned"] = earlier["tuned"]
        if earlier["identity"]["quire"] == identity["quire"]:
            results.document = earlier
        return results

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(self.path.name + ".partial")
        partial.write_text(json.dumps(self.document, indent=1) + "\n", encoding="utf-8")
        os.replace(partial, self.path)

    @property
    def tuned(self) -> dict:
        return self.document["tuned"]

    def row(self, name: str) -> dict:
        empty = {"samples": {}, "from_exec": {}, "errors": {}, "settings": {}, "seconds": 0.0, "others": 0.0, "stolen": 0.0, "idle": {}}
        return self.document["rows"].setdefault(name, empty)

    def row_of(self, name: str, settings: dict, errors: dict) -> dict:
        """The row's record; begun anew where others take part in it, or otherwise set: turns are of the same."""
        if self.row(name)["settings"] != settings:
            del self.document["rows"][name]
        record = self.row(name)
        record["settings"], record["errors"] = settings, errors
        return record

    def measured(self, name: str) -> dict | None:
        """The row's record, where at least one round of it is complete."""
        record = self.document["rows"].get(name)
        return record if record and rounds(record) > 0 else None


def rounds(record: dict) -> int:
    return min((len(samples) for samples in record["samples"].values()), default=0)


def add_round(record: dict, taken: dict, seconds: float, others: float, stolen: float, idle: dict) -> None:
    """A round counts as a whole or not at all; shares are of the machine's time, idle ones of a processor's."""
    for name, sample in taken.items():
        record["samples"].setdefault(name, []).append(sample)
    before = record["seconds"]
    record["seconds"] = before + seconds
    for key, share in (("others", others), ("stolen", stolen)):
        record[key] = (record[key] * before + share * seconds) / record["seconds"]
    for engine, share in idle.items():
        record["idle"][engine] = max(record["idle"].get(engine, 0.0), share)


@dataclass(frozen=True)
class Outcome:
    """How many times as fast we were as the best of the others."""

    ours_ms: float
    best: str
    best_ms: float
    ratio: float
    least: float  # of a round
    most: float

    def reached(self, comparison: Comparison) -> bool | None:
        if comparison.at_least is not None:
            return self.ratio >= comparison.at_least
        if comparison.at_most_ms is not None:
            return self.ours_ms <= comparison.at_most_ms
        return None


def compare(record: dict, comparison: Comparison) -> Outcome | None:
    """Nothing where we, or all of the others, were not measured."""
    samples = record["samples"]
    ours = samples.get(comparison.ours.name)
    theirs = {peer.name: samples[peer.name] for peer in comparison.theirs if samples.get(peer.name)}
    if not ours or not theirs:
        return None
    best = min(theirs, key=lambda name: median(theirs[name]))
    turns = [their / our for our, their in zip(ours, theirs[best])]
    return Outcome(median(ours), best, median(theirs[best]), median(theirs[best]) / median(ours), min(turns), max(turns))


def figure(row: Row, ms: float) -> str:
    if row.shows_time:
        return f"{ms:,.0f} ms"
    speed = row.work.tokens_per_second(ms)
    return f"{speed:,.0f}" if speed >= 100 else f"{speed:.1f}"


def figures(row: Row, samples: list[float]) -> tuple[str, str]:
    """The median, and from the least to the most."""
    shown = sorted(samples, reverse=not row.shows_time)
    return figure(row, median(samples)), f"{figure(row, shown[0])} to {figure(row, shown[-1])}"
