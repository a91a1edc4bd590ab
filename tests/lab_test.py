"""`quire lab` as a user meets it: a folder with results and a report, going on, stopping, errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from support.quire_program import QUIRE, quire, tiny_model


def names() -> list[str]:
    return [line.split()[0] for line in quire("lab", "--list").stdout.splitlines()]


class Lab(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = Path(self.folder.name) / "results"

    def lab(self, *arguments: str):
        return quire("lab", *arguments, "-m", tiny_model(), "--quick", "-o", self.out)

    def results(self) -> dict:
        return json.loads((self.out / "results.json").read_text())

    def test_results_and_a_report(self):
        done = self.lab("speed")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "")
        results = self.results()
        self.assertTrue(results["conditions"]["quick"])
        self.assertLessEqual({"version", "machine", "model", "text"}, set(results["conditions"]))
        [speed] = results["experiments"]
        self.assertEqual(speed["name"], "speed")
        for series in speed["charts"][0]["series"]:
            self.assertLessEqual({"name", "unit", "points"}, set(series))
            for point in series["points"]:
                self.assertLessEqual(point["low"], point["y"])
                self.assertLessEqual(point["y"], point["high"])
        report = (self.out / "report.html").read_text()
        self.assertIn("Chart.js", report)
        self.assertIn(speed["findings"][0].split("<")[0], report)
        self.assertNotRegex(report, r'(?:src|href)="http')

    def test_a_second_run_goes_on(self):
        first = names()[0]
        self.assertEqual(self.lab(first).returncode, 0)
        before = self.results()
        again = self.lab(first)
        self.assertEqual(again.returncode, 0)
        self.assertIn("done before", again.stderr)
        self.assertEqual(self.results(), before)
        self.assertNotIn("done before", self.lab(first, "--again").stderr)

    def test_other_conditions_are_set_aside(self):
        first = names()[0]
        self.lab(first)
        text = Path(self.folder.name) / "text.txt"
        text.write_text("The harbour lies to the north of the town. " * 80)
        done = self.lab(first, "-f", text)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("other conditions", done.stderr)
        self.assertIn("text.txt", self.results()["conditions"]["text"])
        self.assertTrue((self.out / "results.1.json").exists())

    def test_json(self):
        done = self.lab(names()[0], "--json")
        self.assertEqual(json.loads(done.stdout), self.results())

    def test_ctrl_c_keeps_what_is_done(self):
        every = names()
        if len(every) < 2:
            self.skipTest("needs two experiments")
        command = [QUIRE, "lab", "all", "-m", str(tiny_model()), "-o", str(self.out)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "QUIRE_MODEL": ""}) as run:
            for line in run.stderr:
                if line.startswith("[2/"):
                    run.send_signal(signal.SIGINT)
                    break
            rest = run.stderr.read()
        self.assertEqual(run.returncode, 130, rest)
        self.assertIn("goes on from there", rest)
        self.assertEqual([e["name"] for e in self.results()["experiments"]][0], every[0])
        self.assertLess(len(self.results()["experiments"]), len(every))
        self.assertTrue((self.out / "report.html").exists())

    def test_errors(self):
        for arguments, said in [(("sped",), "did you mean speed?"), ((), "no experiment named"),
                                (("speed", "-f", "nowhere.txt"), "nowhere.txt"), (("speed", "-m", "none.gguf"), "none.gguf")]:
            with self.subTest(arguments):
                done = quire("lab", "-o", self.out, *arguments, *(() if "-m" in arguments else ("-m", tiny_model())))
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
