"""`quire bench` as a user meets it: JSON, a table, comparing, errors. Speeds themselves are not judged here."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from support.quire_program import quire, quire_json, tiny_model

QUICK = ("-p", "8,20", "-n", "3", "-d", "0,40", "-r", "2", "-t", "1")


class Bench(unittest.TestCase):
    def test_json_has_the_fields_scripts_read(self):
        out = quire_json("bench", "-m", tiny_model(), *QUICK, "-b", "1,2", "--cache-type-k", "f16,q8")
        self.assertLessEqual({"cpu", "threads", "isa", "read_gbps", "int8_gops"}, set(out["machine"]))
        self.assertGreater(out["machine"]["read_gbps"], 0)
        self.assertGreater(out["machine"]["int8_gops"], 0)
        self.assertGreater(out["weights_bytes"], 0)
        # Two formats; at each of two depths two prompts and two batches.
        self.assertEqual(len(out["runs"]), 16)
        fields = {"kind", "n", "depth", "batch", "shared_prefix", "type_k", "type_v", "policy", "repeats", "median_ms", "min_ms",
                  "tokens_per_second", "bytes_per_token", "roofline_fraction"}
        for run in out["runs"]:
            self.assertLessEqual(fields, set(run))
            self.assertEqual(run["type_k"], run["type_v"], "values are kept as keys are")
            self.assertEqual(run["repeats"], 2)
            self.assertGreater(run["tokens_per_second"], 0)
            self.assertLessEqual(run["min_ms"], run["median_ms"])
        f16, q8 = ([r["bytes_per_token"] for r in out["runs"] if r["type_k"] == t][0] for t in ("f16", "q8"))
        self.assertLess(q8, f16)

    def test_a_shared_prefix_and_policies(self):
        out = quire_json("bench", "-m", tiny_model(), "-p", "0", "-n", "2", "-b", "3", "--shared-prefix", "32", "-r", "1",
                         "--cache-policy", "full,window:32")
        self.assertEqual([(r["depth"], r["shared_prefix"], r["policy"]) for r in out["runs"]],
                         [(32, 32, "full"), (32, 32, "window:32")])

    def test_a_table_and_a_comparison(self):
        with tempfile.TemporaryDirectory() as folder:
            earlier = Path(folder) / "earlier.json"
            earlier.write_text(json.dumps(quire_json("bench", "-m", tiny_model(), *QUICK)))
            done = quire("bench", "-m", tiny_model(), *QUICK, "--compare", earlier)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("GB/s", done.stdout)
            self.assertIn("ratio", done.stdout)
            self.assertEqual(sum(line.startswith(("prefill", "decode")) for line in done.stdout.splitlines()), 6)
            again = quire_json("bench", "-m", tiny_model(), *QUICK, "--compare", earlier)
            self.assertTrue(all(run["ratio"] > 0 for run in again["runs"]))
            earlier.write_text("[]")
            done = quire("bench", "-m", tiny_model(), "--compare", earlier)
            self.assertEqual(done.returncode, 1)
            self.assertIn("quire bench --json", done.stderr)

    def test_what_cannot_be_measured_is_refused(self):
        for options, said in [(("-d", "1000000"), "context"), (("-b", "0"), "-b"), (("-p", "x"), "-p"),
                              (("-ctk", "f16,q8", "-ctv", "q4,q4,q4"), "types of keys"), (("-ctk", "q9"), "q9"),
                              (("--cache-policy", "magic"), "magic"), (("--compare", "nowhere.json"), "nowhere.json")]:
            with self.subTest(options):
                done = quire("bench", "-m", tiny_model(), "-r", "1", *options)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(said, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1 if "Try" not in done.stderr else 2, done.stderr)


if __name__ == "__main__":
    unittest.main()
