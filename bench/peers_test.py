"""What bench/peers.py makes of its samples. No peer is needed: workers are played by a few lines of Python."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent))

import peers
from peer_report import document, plain, probes, ratios, settings_text, table
from peer_results import Results, add_round, compare, figures, rounds
from peer_rows import COMPARISONS, EVERY, GROUPS, LLAMA, OPENVINO, OURS, QUIRE, ROWS, TUNINGS, Comparison, Contender, Work, applicable, contenders
from peer_text import text
from peer_workers import Watch, Worker, WorkerError, first_token_ms, machine_seconds, one_line, process_seconds

SILENT = {"seconds": 2.0, "others": 0.0, "stolen": 0.0, "idle": {}}
FACTS = {"command": "bench/peers.py", "date": "today", "machine": "a machine", "versions": "Quire 1", "threads": 2, "models": "a.gguf"}
# Answers twice what it was asked for, and refuses one format.
ECHO = """
import json, sys
print("a library says hello")
print(json.dumps({"versions": {"Echo": "1"}}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"error": "first\\nno such format"} if request.get("format") == "u4" else {"ms": 2 * request.get("n", 0)}), flush=True)
"""


def record_of(**samples: list[float]) -> dict:
    return {"samples": {name.replace("_", " ", 1): values for name, values in samples.items()}, "errors": {}, "from_exec": {}}


def results_in(folder: str, identity: dict | None = None) -> Results:
    return Results(Path(folder) / "peers.json", identity or {"machine": "m", "quire": "1", "commit": "c"})


class Rows(unittest.TestCase):
    def test_every_comparison_is_of_contenders_that_its_row_measures(self):
        by_name = {row.name: row for row in ROWS}
        self.assertEqual(len(by_name), len(ROWS))
        for comparison in COMPARISONS:
            measured = set(by_name[comparison.row].contenders)
            self.assertIn(comparison.ours, measured, comparison.title)
            self.assertLessEqual(set(comparison.theirs), measured, comparison.title)
            self.assertNotIn(QUIRE, {peer.engine for peer in comparison.theirs})

    def test_the_bars(self):
        bars = {c.title: c.at_least for c in COMPARISONS if c.at_least}
        self.assertEqual(sorted(bars.values()), [1.3, 1.3, 1.5, 1.5, 2, 2, 2.2, 2.5, 3, 5])
        self.assertEqual(bars["decode, depth 7,680, 4-bit cache, against any format"], 3)
        self.assertEqual({c.theirs for c in COMPARISONS if "any format" in c.title}, {EVERY})

    def test_speeds(self):
        self.assertEqual(Work("prefill", 512).tokens_per_second(1024), 500)
        self.assertEqual(Work("decode", 32, 2048, 16, 2048).tokens_per_second(8), 2000)
        self.assertEqual(contenders("Quire f16, OpenVINO GenAI u8"), (Contender("Quire", "f16"), Contender("OpenVINO GenAI", "u8")))

    def test_settings_are_those_found_best_for_such_work(self):
        tuned = {"llama.cpp prefill": {"best": {"flash": False, "n_ubatch": 128}}, "llama.cpp decode": {"best": {"flash": False}}}
        f16, q8 = Contender(LLAMA, "f16"), Contender(LLAMA, "q8_0")
        self.assertEqual(applicable(tuned, f16, Work("decode", 1)), {"flash": False, "n_ubatch": 128})
        self.assertEqual(applicable(tuned, q8, Work("decode", 1)), {"flash": True, "n_ubatch": 128})
        self.assertEqual(applicable(tuned, OURS[16], Work("decode", 1)), {})
        for tuning in TUNINGS:
            self.assertIn(tuning.engine, (LLAMA, OPENVINO))
            self.assertGreater(len(tuning.candidates), 1)

    def test_rows_are_chosen_by_group_or_name(self):
        self.assertEqual(peers.chosen(",".join(GROUPS)), list(ROWS))
        self.assertEqual([row.name for row in peers.chosen("prefill,decode-0")], ["prefill-512", "decode-0", "prefill-4096"])
        with self.assertRaises(SystemExit):
            peers.chosen("prefil")

    def test_texts_differ_from_place_to_place(self):
        self.assertEqual(text(8)[4:], text(4, 4))
        self.assertFalse(set(text(64)) & set(text(64, 1 << 40)) == set(text(64)))
        self.assertTrue(all(1000 <= token < 31000 for token in text(1000)))


class Ratios(unittest.TestCase):
    comparison = Comparison("decode-0", "work", OURS[16], contenders("llama.cpp f16, OpenVINO f16"), 1.5)

    def test_the_best_peer_is_the_one_with_the_least_median(self):
        record = record_of(Quire_f16=[10, 12, 11], **{"llama.cpp_f16": [20, 90, 22], "OpenVINO_f16": [30, 15, 31]})
        outcome = compare(record, self.comparison)
        self.assertEqual((outcome.best, outcome.best_ms, outcome.ours_ms), ("llama.cpp f16", 22, 11))
        self.assertEqual(outcome.ratio, 2)
        self.assertEqual((outcome.least, outcome.most), (2, 7.5), "turn by turn")
        self.assertTrue(outcome.reached(self.comparison))

    def test_a_peer_that_could_not_is_left_out_and_without_any_there_is_no_ratio(self):
        one = compare(record_of(Quire_f16=[10], **{"OpenVINO_f16": [5]}), self.comparison)
        self.assertEqual((one.best, one.ratio), ("OpenVINO f16", 0.5))
        self.assertFalse(one.reached(self.comparison))
        self.assertIsNone(compare(record_of(Quire_f16=[10]), self.comparison))
        self.assertIsNone(compare(record_of(**{"OpenVINO_f16": [5]}), self.comparison))

    def test_bars_on_times_and_no_bars(self):
        outcome = compare(record_of(Quire_f16=[390], **{"llama.cpp_f16": [200]}), self.comparison)
        self.assertTrue(outcome.reached(Comparison("startup", "", OURS[16], (), at_most_ms=400)))
        self.assertFalse(outcome.reached(Comparison("startup", "", OURS[16], (), at_most_ms=380)))
        self.assertIsNone(outcome.reached(Comparison("startup", "", OURS[16], ())))

    def test_figures_run_from_the_least_to_the_most(self):
        by_name = {row.name: row for row in ROWS}
        self.assertEqual(figures(by_name["prefill-512"], [512, 256, 1024]), ("1,000", "500 to 2,000"))
        self.assertEqual(figures(by_name["decode-0"], [20, 25, 40]), ("40.0", "25.0 to 50.0"))
        self.assertEqual(figures(by_name["ttft"], [20, 25, 1040]), ("25 ms", "20 ms to 1,040 ms"))


class Kept(unittest.TestCase):
    def test_rounds_count_as_a_whole_and_shares_are_weighted(self):
        with tempfile.TemporaryDirectory() as folder:
            record = results_in(folder).row("decode-0")
            self.assertEqual(rounds(record), 0)
            add_round(record, {"a": 1.0, "b": 2.0}, seconds=1, others=0.4, stolen=0, idle={"b": 0.1})
            add_round(record, {"a": 3.0, "b": 4.0}, seconds=3, others=0.0, stolen=0.2, idle={"b": 0.05})
            self.assertEqual(record["samples"], {"a": [1, 3], "b": [2, 4]})
            self.assertEqual(rounds(record), 2)
            self.assertAlmostEqual(record["others"], 0.1)
            self.assertAlmostEqual(record["stolen"], 0.15)
            self.assertEqual(record["idle"], {"b": 0.1})

    def test_a_row_in_which_others_take_part_begins_anew(self):
        with tempfile.TemporaryDirectory() as folder:
            results = results_in(folder)
            add_round(results.row_of("decode-0", {"a": {}, "b": {}}, {}), {"a": 1.0, "b": 2.0}, **SILENT)
            self.assertEqual(rounds(results.row_of("decode-0", {"a": {}, "b": {}}, {})), 1)
            self.assertEqual(rounds(results.row_of("decode-0", {"a": {}}, {"b": "gone"})), 0)
            self.assertEqual(results.row("decode-0")["errors"], {"b": "gone"})

    def test_a_file_is_resumed_for_the_same_programs_only(self):
        with tempfile.TemporaryDirectory() as folder:
            first = results_in(folder)
            add_round(first.row("decode-0"), {"a": 1.0}, **SILENT)
            first.tuned["llama.cpp prefill"] = {"best": {"flash": True}}
            first.save()
            path, identity = first.path, first.document["identity"]
            self.assertEqual(Results.open(path, {**identity, "commit": "d"}).measured("decode-0")["samples"], {"a": [1.0]})
            rebuilt = Results.open(path, {**identity, "quire": "2"})
            self.assertIsNone(rebuilt.measured("decode-0"), "an older Quire's samples")
            self.assertEqual(rebuilt.tuned, first.tuned)
            self.assertEqual(Results.open(path, {**identity, "machine": "n"}).tuned, {})
            self.assertEqual(Results.open(path, identity, fresh=True).document["rows"], {})


class Report(unittest.TestCase):
    def test_a_document_shows_ratios_bars_and_what_could_not_be_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            results = results_in(folder)
            record = results.row("prefill-512")
            for ours, theirs in ((100.0, 120.0), (100.0, 125.0), (100.0, 150.0)):
                add_round(record, {"Quire f16": ours, "llama.cpp f16": theirs}, **SILENT)
            record["errors"]["OpenVINO GenAI f16"] = "cannot read | this"
            add_round(results.row("probe"), {"quire bench": [20.0, 300.0], "second probe": [20.5, 400.0]}, **SILENT)
            results.tuned["llama.cpp decode"] = {
                "best": {"flash": True},
                "tried": [{"settings": {"flash": True}, "ms": 10.0}, {"settings": {"flash": False}, "error": "no"}],
            }
            text = document(results, FACTS)
            self.assertIn("| prefill 512 | 5,120 | 4,096 (llama.cpp f16) | **1.25** | 1.20 to 1.50 | 1.3 | **not reached** |", text)
            self.assertIn("| prefill 512 | OpenVINO GenAI f16 | – | – | 0 | cannot read / this |", text)
            self.assertIn("Of 11 bars 0 were reached, 1 were not, and 10 were not measured.", text)
            self.assertIn("| prefill 4,096 | – | – | – | – | 1.3 | not measured |", text)
            self.assertIn("**flash on: 100.0**; flash off: no", text)
            self.assertIn("| 2.4 % | 5 % | reached |", probes(results)[2])
            self.assertIn("| 25.0 % | 5 % | **not reached** |", probes(results)[3])
            self.assertEqual(len(ratios(results)), 2 + len(COMPARISONS), "under the header")
            self.assertTrue(all(line.count("|") == probes(results)[0].count("|") for line in probes(results)))

    def test_plain_tables_have_their_columns_under_each_other(self):
        self.assertEqual(plain(table(["a", "bb"], [["ccc", "d"]])), "a    bb\nccc  d")

    def test_settings_in_words(self):
        self.assertEqual(settings_text({"flash": True, "n_ubatch": 128, "properties": {"A": "b"}}), "flash on, n_ubatch 128, A b")
        self.assertEqual(settings_text({}), "as it comes")


class Workers(unittest.TestCase):
    def setUp(self):
        self.worker = Worker("Echo", [sys.executable, "-c", ECHO])
        self.addCleanup(self.worker.close)

    def test_answers_and_errors(self):
        self.assertEqual(self.worker.versions["versions"], {"Echo": "1"})
        self.assertEqual(self.worker.measure({"n": 21}), 42)
        with self.assertRaisesRegex(WorkerError, "^no such format$"):
            self.worker.measure({"format": "u4"})
        self.assertEqual(self.worker.measure({"n": 1}), 2, "it goes on")

    def test_a_worker_that_is_gone(self):
        self.worker.process.kill()
        self.worker.process.wait()
        with self.assertRaisesRegex(WorkerError, "Echo's process"):
            self.worker.measure({"n": 1})

    def test_who_used_the_machine(self):
        watch = Watch([self.worker])
        self.assertEqual(watch.turn("another", lambda: 7), 7)
        said = watch.report()
        self.assertEqual(set(said), {"seconds", "others", "stolen", "idle"})
        self.assertIn("Echo", said["idle"])
        self.assertGreater(process_seconds(os.getpid()), 0)
        self.assertEqual(process_seconds(-1), 0)
        ticks = os.sysconf("SC_CLK_TCK")
        self.assertEqual(machine_seconds(f"cpu  {ticks} 0 {ticks} 9 9 0 0 {3 * ticks} 0 0\ncpu0"), (2, 3))

    def test_a_first_token(self):
        program = "import json, time\nat = time.monotonic()\nprint('.', flush=True)\nprint(json.dumps({'imported': at}))"
        whole, python = first_token_ms([sys.executable, "-c", program])
        self.assertTrue(0 < python <= whole)
        self.assertEqual(first_token_ms([sys.executable, "-c", "print('Paris')"])[1], 0)
        with self.assertRaises(WorkerError):
            first_token_ms([sys.executable, "-c", "raise SystemExit(1)"])

    def test_one_line(self):
        self.assertEqual(one_line("Exception from a.cpp:1:\n  what went wrong\n\n"), "what went wrong")
        self.assertEqual(one_line(""), "no reason given")

    def test_a_row_is_tuned_prepared_and_taken_in_turns(self):
        with tempfile.TemporaryDirectory() as folder:
            args = SimpleNamespace(model="m", gemma="g", worker="w", repeats=3, tune_repeats=1, threads=2)
            bench = peers.Bench(args, "python")
            bench.workers = {engine: Worker(engine, [sys.executable, "-c", ECHO]) for engine in (QUIRE, LLAMA, OPENVINO)}
            self.addCleanup(bench.close)
            bench.results = results_in(folder)
            row = next(row for row in ROWS if row.name == "decode-0")
            spoken, peers.say = peers.say, lambda text: None
            self.addCleanup(setattr, peers, "say", spoken)
            bench.run(row)
            record = json.loads(bench.results.path.read_text())["rows"]["decode-0"]
            self.assertEqual(rounds(record), 3)
            self.assertEqual(record["samples"]["llama.cpp q8_0"], [128, 128, 128])
            self.assertEqual(record["errors"], {"OpenVINO GenAI u4": "no such format"})
            self.assertEqual(record["settings"]["llama.cpp q4_0"]["flash"], True)
            self.assertIn("OpenVINO GenAI decode", bench.results.tuned)
            self.assertEqual(set(record["idle"]), {QUIRE, LLAMA, OPENVINO})


if __name__ == "__main__":
    unittest.main()
