"""Weights kept as kernels read them, beside the model: the same answers from them, and never another model's."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import unittest
from pathlib import Path

from support.quire_program import quire, tiny_model

HEAD = 4096


class PackedWeights(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quire-packed-")
        self.addCleanup(folder.cleanup)
        self.model = Path(folder.name) / "model.gguf"
        shutil.copy(tiny_model("llama", "--type", "q4_0"), self.model)
        self.packed = Path(f"{self.model}.packed")

    def answer(self, *options: str) -> tuple[list[int], str]:
        done = quire("run", "-m", self.model, "-p", "Once upon a time", "-n", "24", "--temp", "0.9", "--seed", "3", "--json", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["tokens"], done.stderr

    def keeps(self, *options: str) -> list[int]:
        tokens, said = self.answer("--keep-packed", *options)
        self.assertIn(f"packed weights kept in {self.packed}", said)
        return tokens

    def finds(self, *options: str) -> list[int]:
        before = self.packed.stat()
        tokens, said = self.answer("--keep-packed", *options)
        self.assertEqual(said, "")
        self.assertEqual(self.packed.stat().st_ino, before.st_ino, "read, not written again")
        return tokens

    def test_the_same_answer_without_writing_and_reading(self):
        plain, said = self.answer()
        self.assertEqual(said, "")
        self.assertFalse(self.packed.exists(), "only when asked")
        self.assertGreater(len(set(plain)), 3)
        self.assertEqual(self.keeps(), plain)
        self.assertEqual(self.finds(), plain)

    def test_what_is_read_is_what_the_file_holds(self):
        """Else the tests below would see nothing."""
        plain = self.keeps()
        data = bytearray(self.packed.read_bytes())
        data[HEAD:] = bytes(len(data) - HEAD)
        with open(self.packed, "r+b") as file:
            file.write(data)
        self.assertNotEqual(self.finds(), plain)

    def test_a_file_that_does_not_fit_is_written_anew(self):
        plain = self.keeps()
        whole = self.packed.read_bytes()
        for name, broken in {"empty": b"", "cut": whole[:-64], "longer": whole + b"x", "head": b"x" + whole[1:],
                             "key": whole[:30] + bytes([whole[30] ^ 1]) + whole[31:], "another": b"text\n"}.items():
            with self.subTest(name):
                self.packed.write_bytes(broken)
                self.assertEqual(self.keeps(), plain)
                self.assertEqual(self.packed.read_bytes(), whole)

    def test_another_model_of_the_same_size_is_not_mistaken_for_it(self):
        first = self.keeps()
        shutil.copy(tiny_model("llama", "--type", "q4_0", "--seed", "8"), self.model)
        other, _ = self.answer()
        self.assertNotEqual(other, first)
        self.assertEqual(self.keeps(), other)

    def test_a_model_changed_in_one_place_is_packed_anew(self):
        self.keeps()
        data = bytearray(self.model.read_bytes())
        data[len(data) // 2] ^= 1
        self.model.write_bytes(data)
        self.keeps()

    def test_with_any_kernels(self):
        for kernels in ("portable", "exact"):
            plain, _ = self.answer("--kernels", kernels)
            self.assertEqual(self.keeps("--kernels", kernels), plain)
            self.assertEqual(self.finds("--kernels", kernels), plain)
            self.packed.unlink()

    def test_where_it_cannot_be_written_the_answer_comes_all_the_same(self):
        plain, _ = self.answer()
        os.mkdir(self.packed)
        tokens, said = self.answer("--keep-packed")
        self.assertEqual(tokens, plain)
        self.assertIn("packed weights are not kept", said)
        self.assertIn(str(self.packed), said)
        self.assertEqual(sorted(p.name for p in self.model.parent.iterdir()), ["model.gguf", "model.gguf.packed"])


if __name__ == "__main__":
    unittest.main()
