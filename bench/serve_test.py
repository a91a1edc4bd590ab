#!/usr/bin/env python3
"""What bench/serve.py makes of what it measured: bars that are reached and bars that are not."""

from __future__ import annotations

import copy
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import serve_report  # noqa: E402

SPREAD = {"p50": 10.0, "p90": 12.0, "p99": 15.0, "most": 20.0, "count": 9}
IDLE = {"open_pages": 0, "sealed_pages": 0, "bytes": 0, "budget": 1 << 30}
SEEN = {"seconds": 120.0, "seconds_until_last_answer": 130.0, "requests": 1000, "answered": 1000, "abandoned": 0, "errors": 0, "errors_by_kind": {},
        "statuses": {"200": 1000}, "tokens_per_second": 700.0, "first_token_ms": SPREAD, "between_tokens_ms": SPREAD, "whole_answer_ms": SPREAD,
        "refused": 0, "refused_without_retry_after": 0, "refusal_ms": SPREAD, "keep_alives": 9, "longest_silence_ms": 15_000.0, "client_cpu_share": 0.02,
        "server_cpu_share": 1.9, "others_cpu_share": 0.0, "memory": [1 << 30] * 40, "command": "load_client", "server": "quire serve", "idle": IDLE}
SEAL = {"when": "today", "quire": "quire 1", "machine": "a machine"}
RESULTS = {
    "load": {**SEEN, **SEAL},
    "llama": {"16": {**SEEN, "tokens_per_second": 40.0}, "64": {**SEEN, "tokens_per_second": 50.0}, "version": "llama_cpp_python-1", **SEAL},
    "overload": {**SEEN, "refused": 500, "rate": 100.0, "statuses": {"200": 500, "429": 500}, "server_refusal_ms": SPREAD, **SEAL},
    "streams": {**SEEN, "together": 1000, "running": 64, **SEAL},
    "slow": {"without": SEEN, "headers that never end": {**SEEN, "attack": "slowhttptest -H"}, "idle": IDLE, **SEAL},
    "leavers": {"passed": True, "clients": 1000, "p50": 20, "p99": 40, "most": 50, **SEAL},
}


def missed(*changes: tuple[str, dict]) -> list[str]:
    results = copy.deepcopy(RESULTS)
    for part, change in changes:
        results[part].update(change)
    return serve_report.document(results, "model.gguf")[1]


class Report(unittest.TestCase):
    def test_all_reached(self):
        text, short = serve_report.document(RESULTS, "model.gguf")
        self.assertEqual(short, [])
        self.assertIn("14.0 times", text)  # of the best of both numbers of slots
        self.assertNotIn("**not reached**", text)

    def test_each_bar_can_be_missed(self):
        for part, change in [
            ("load", {"errors": 1}), ("load", {"idle": {**IDLE, "open_pages": 1}}), ("load", {"memory": [(1 << 30) + (i << 24) for i in range(40)]}),
            ("load", {"tokens_per_second": 499.0}), ("overload", {"statuses": {"200": 1, "500": 1}}), ("overload", {"refused_without_retry_after": 1}),
            ("overload", {"refused": 0}), ("overload", {"server_refusal_ms": {**SPREAD, "p99": 50.0}}), ("overload", {"errors": 2}), ("overload", {"abandoned": 1}),
            ("overload", {"memory": [(1 << 30) + serve_report.CONSTANT + 1]}), ("streams", {"together": 999}), ("streams", {"answered": 999}),
            ("streams", {"longest_silence_ms": 20_000.0}), ("leavers", {"p99": 101}), ("leavers", {"passed": False}),
            ("slow", {"headers that never end": {**SEEN, "attack": "", "first_token_ms": {**SPREAD, "p99": 30.0}}}),
        ]:
            with self.subTest(part=part, change=change):
                self.assertEqual(len(missed((part, change))), 1)

    def test_parts_that_were_not_measured_are_left_out(self):
        text, short = serve_report.document({"streams": RESULTS["streams"]}, "model.gguf")
        self.assertEqual(short, [])
        self.assertNotIn("## Many clients", text)

    def test_memory_that_grows_late_is_seen(self):
        self.assertAlmostEqual(serve_report.growth([9, 10, 10, 12]), 0.2)
        self.assertEqual(serve_report.growth([1, 2]), 0.0)


if __name__ == "__main__":
    unittest.main()
