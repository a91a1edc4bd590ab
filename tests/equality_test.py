"""Cached and naive generation give the same tokens, on tiny models and on what lies in models/."""

from __future__ import annotations

import subprocess
import sys
import unittest

from support.quire_program import GEMMA3, QUIRE, ROOT, SMOLLM2, quire_json, tiny_model


class Equality(unittest.TestCase):
    def check(self, model, *options):
        script = ROOT / "scripts/equality.py"
        done = subprocess.run([sys.executable, script, "--quire", QUIRE, "--model", model, "--quick", *options],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_tiny_models(self):
        for arch in ("gpt2", "gemma3", "qwen3"):
            with self.subTest(arch):
                self.check(tiny_model(arch))

    def test_the_tiny_gemma_depends_on_its_window(self):
        """Else the test above could not see a wrong one."""
        answers = set()
        for window in ("4", "64"):
            out = quire_json("run", "-m", tiny_model("gemma3", "--window", window), "-p", "the old library at the end of the street " * 4,
                             "-n", "24", "--temp", "0.8", "--seed", "2")
            self.assertGreater(len(set(out["tokens"])), 3)
            answers.add(tuple(out["tokens"]))
        self.assertEqual(len(answers), 2)

    def test_smollm2(self):
        if not SMOLLM2.exists():
            self.skipTest("models/ has no SmolLM2; make run fetches it")
        self.check(SMOLLM2, "--predict", "8")

    def test_gemma3(self):
        if not GEMMA3.exists():
            self.skipTest("models/ has no Gemma 3; make models fetches it")
        self.check(GEMMA3, "--predict", "4")


if __name__ == "__main__":
    unittest.main()
