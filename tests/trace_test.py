"""`quire trace` as a user meets it: JSON, text, several machines, errors with line numbers."""

from __future__ import annotations

import json
import unittest

from support.quire_program import quire, quire_json

REQUESTS = [[0, 1], [2, 3], [0, 1, 4], [2, 3, 5], [0, 1, 4, 6]]
TRACE = "".join(
    json.dumps({"timestamp": 1000 * i, "input_length": 512 * len(ids), "output_length": 9, "hash_ids": ids}) + "\n"
    for i, ids in enumerate(REQUESTS)
)


class Trace(unittest.TestCase):
    def test_json_has_the_fields_scripts_read(self):
        out = quire_json("trace", "-", "--capacity", "100", stdin=TRACE)
        fields = {"requests", "blocks", "hits", "hit_rate", "capacity", "policy", "evictions", "seconds"}
        self.assertLessEqual(fields, set(out))
        self.assertEqual((out["requests"], out["blocks"], out["hits"], out["evictions"]), (5, 14, 7, 0))
        self.assertEqual(out["hit_rate"], 0.5)
        self.assertEqual(out["policy"], "return-rate")

    def test_policies(self):
        hits = {}
        for policy in ("lru", "s3-fifo", "return-rate", "belady"):
            out = quire_json("trace", "-", "--capacity", "3", "--policy", policy, stdin=TRACE)
            self.assertEqual(out["policy"], policy)
            hits[policy] = out["hits"]
        self.assertEqual(hits["lru"], 1, "the chat that was there before has lost its end")
        self.assertEqual(hits["belady"], max(hits.values()))

    def test_several_machines(self):
        out = quire_json("trace", "-", "--capacity", "100", "--machines", "2", "--routing", "round-robin", stdin=TRACE)
        self.assertEqual((out["machines"], out["routing"], len(out["per_machine"])), (2, "round-robin", 2))
        self.assertEqual(out["hits"], 7, "the chats take turns as the machines do")
        self.assertGreaterEqual(out["imbalance"], 1)
        shared = quire_json("trace", "-", "--capacity", "1", "--machines", "2", "--shared", "100", stdin=TRACE)
        self.assertEqual(shared["hits"], 7)
        self.assertEqual(shared["bytes_fetched"], shared["shared_hits"] * 512 * 131072)
        self.assertEqual(shared["bytes_stored"], 7 * 512 * 131072)
        self.assertIn("balance", quire("trace", "-", "--capacity", "9", "--machines", "2", stdin=TRACE).stdout)

    def test_errors_name_the_line_and_what_to_do(self):
        for status, pattern, text, *options in (
            (1, "-, line 2: not a JSON object", '{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}\nx\n'),
            (1, 'line 1: no "hash_ids"', '{"timestamp": 0, "input_length": 1, "output_length": 1}\n'),
            (1, "no requests in it", ""),
            (2, "did you mean lru?", TRACE, "--policy", "lr"),
            (2, "did you mean round-robin?", TRACE, "--machines", "2", "--routing", "roundrobin"),
            (2, "one machine's future", TRACE, "--machines", "2", "--policy", "belady"),
            (2, "--capacity", TRACE, "--capacity", "0"),
        ):
            with self.subTest(pattern):
                done = quire("trace", "-", "--capacity", "10", *options, stdin=text)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(pattern, done.stderr)
                self.assertEqual(done.stdout, "")
        self.assertEqual(quire("trace", "/nonexistent", "--capacity", "1").returncode, 1)
        self.assertEqual(quire("trace", "-", stdin=TRACE).returncode, 2, "a capacity is needed")


if __name__ == "__main__":
    unittest.main()
