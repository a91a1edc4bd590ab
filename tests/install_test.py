"""An installed Quire can be found and linked by a program outside its tree."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from support.quire_program import ROOT, tiny_model


def run(*command, **kwargs) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **kwargs)
    if done.returncode != 0:
        raise AssertionError(f"{command}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Install(unittest.TestCase):
    def test_example_builds_against_the_installed_package(self):
        if os.environ.get("QUIRE_SANITIZE"):
            self.skipTest("a library built with sanitizers needs them in the program too")
        with tempfile.TemporaryDirectory(prefix="quire-install-") as folder:
            prefix, build = Path(folder) / "prefix", Path(folder) / "build"
            run("cmake", "--install", os.environ["QUIRE_BUILD"], "--prefix", prefix)
            run("cmake", "-S", ROOT / "examples/complete", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
            run("cmake", "--build", build)
            out = run(build / "complete", tiny_model(), "Hello")
            self.assertRegex(out, r"\d+ tokens, \d+ bytes of cache")
            self.assertRegex(run(prefix / "bin/quire", "--version"), r"^quire \d")


if __name__ == "__main__":
    unittest.main()
