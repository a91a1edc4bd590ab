"""Cached and naive generation give the same tokens, on tiny models and on what lies in models/."""

from __future__ import annotations

import subprocess
import sys
import unittest

from support.quire_program import GEMMA3, QUIRE, ROOT, SMOLLM2, tiny_model


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
