"""A path, a make target or an option that a document names exists."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

from support.quire_program import ROOT, quire

DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/data/**/*.md")]
# In ADRs and the changelog a name may belong to the past.
PRESENT = [d for d in DOCUMENTS if "adr" not in d.parts and d.name != "CHANGELOG.md"]
FOLDERS = "src|include|tests|docs|bench|fuzz|scripts|cmake|deploy|examples"


class Documents(unittest.TestCase):
    def test_paths_exist(self):
        for document in PRESENT:
            for path in re.findall(rf"`((?:{FOLDERS})/[\w./*-]*)`", document.read_text()):
                with self.subTest(f"{document.name}: {path}"):
                    self.assertTrue(list(ROOT.glob(path.rstrip("/"))), "does not exist")

    def test_links_lead_somewhere(self):
        for document in DOCUMENTS:
            for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
                if not target.startswith("http"):
                    with self.subTest(f"{document.name}: {target}"):
                        self.assertTrue((document.parent / target).exists())

    def test_make_targets_exist(self):
        targets = set(re.findall(r"^([\w-]+(?: [\w-]+)*):", (ROOT / "Makefile").read_text(), re.M))
        targets = {word for line in targets for word in line.split()}
        for document in PRESENT:
            for target in re.findall(r"`make ([\w-]+)", document.read_text()):
                with self.subTest(f"{document.name}: make {target}"):
                    self.assertIn(target, targets)

    def test_commands_and_options_exist(self):
        help_of = {}
        for document in PRESENT:
            for line in re.findall(r"(?:^|[`$] ?)(?:build/)?quire (\w+[^`\n]*)", document.read_text(), re.M):
                command, *words = line.split()
                if command not in help_of:
                    help_of[command] = quire(command, "--help")
                with self.subTest(f"{document.name}: quire {line}"):
                    self.assertEqual(help_of[command].returncode, 0, "no such command")
                    for option in re.findall(r"(?<!\S)--?[a-z][\w-]*", line):
                        self.assertRegex(help_of[command].stdout, rf"(?<![\w-]){option}(?![\w-])")

    def test_needed_documents_are_there(self):
        for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs/dependencies.md"):
            self.assertTrue((ROOT / name).exists(), name)


if __name__ == "__main__":
    unittest.main()
