"""`quire plan` as a user meets it: JSON, tables, errors, and that it foretells what `quire run` then takes."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from support.quire_program import quire, quire_json, tiny_model

FIELDS = {
    "model", "layers", "kv_heads", "head_dim", "attention", "bytes_per_token", "ctx", "sequences", "kv_bytes", "weights_bytes",
    "memory_bytes", "max_sequences", "max_context", "kv_exceeds_weights_at", "prefill_ms", "decode_ms_per_token", "formats",
}


class Plan(unittest.TestCase):
    def test_json_has_the_fields_scripts_read(self):
        out = quire_json("plan", "llama-3-70b", "--ctx-size", "2000", "--sequences", "1", "--memory", "400GiB")
        self.assertLessEqual(FIELDS, set(out))
        self.assertLessEqual({"type_k", "type_v", "kv_bytes", "max_sequences"}, set(out["formats"][0]))
        self.assertEqual(out["attention"], "gqa")
        self.assertEqual(out["bytes_per_token"], 327680)
        self.assertEqual(out["kv_bytes"], 625 * 2**20)
        self.assertEqual(out["memory_bytes"], 400 * 2**30)
        self.assertEqual(out["max_sequences"], 655)
        self.assertEqual({f["type_k"]: f["kv_bytes"] for f in out["formats"]}["f32"], 1250 * 2**20)

    def test_units_are_told_apart(self):
        for size, fits in (("400G", 655), ("400GiB", 655), ("400GB", 610), (str(400 * 2**30), 655)):
            self.assertEqual(quire_json("plan", "llama-3-70b", "--ctx-size", "2000", "--memory", size)["max_sequences"], fits, size)

    def test_by_numbers_and_with_other_numbers(self):
        numbers = quire_json("plan", "--layers", "12", "--heads", "12", "--head-dim", "64", "--ctx-size", "4096")
        self.assertEqual(numbers["kv_bytes"], 144 * 2**20)
        self.assertEqual(numbers["attention"], "mha")
        self.assertEqual(quire_json("plan", "llama-3.1-405b", "--kv-heads", "16")["bytes_per_token"], 1008 * 1024)
        latent = quire_json("plan", "--layers", "61", "--heads", "128", "--head-dim", "128", "--latent", "512", "--rope", "64")
        self.assertEqual((latent["attention"], latent["bytes_per_token"]), ("mla", 61 * 576 * 2))
        self.assertEqual(quire_json("plan", "gpt-2", "--parameters", "70B")["weights_bytes"], 140_000_000_000)

    def test_it_foretells_what_a_run_takes(self):
        cases = [
            ("llama", []),
            ("llama", ["-ctk", "q8", "-ctv", "q4"]),
            ("llama", ["-ctk", "k2", "-ctv", "k2"]),
            ("llama", ["--cache-policy", "window:40"]),
            ("llama", ["--cache-policy", "sinks:4+60"]),
            ("gemma3", []),
        ]
        for arch, options in cases:
            with self.subTest(f"{arch} {options}"):
                model = tiny_model(arch)
                run = quire_json("run", "-m", model, "-p", "word " * 60, "-n", "30", "--temp", "0", *options)["cache"]
                plan = quire_json("plan", model, "--ctx-size", str(run["tokens"]), *options)
                self.assertEqual(plan["paged_bytes"], run["bytes"])

    def test_tables_and_chart_for_people(self):
        out = quire("plan", "gemma-3-27b", "--ctx-size", "32768", "--memory", "80G", "--generate", "1000").stdout
        for words in ("62 layers", "with its own windows", "GiB (", "paged", "preallocated", "q4", "mla", "What compounds", "####",
                      "tokens/s", "h200", "$/M out", "Generating 1000 tokens after 31768"):
            self.assertIn(words, out)
        names = quire("plan", "--list").stdout
        self.assertIn("deepseek-v3", names)
        self.assertIn("b200", names)

    def test_hardware_of_ones_own(self):
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "mine.txt"
            table.write_text("# mine\nbox 16 100 2 0.5 a box\n")
            out = quire_json("plan", "gpt-2", "--hardware", table, "--device", "box")
            self.assertEqual([h["name"] for h in out["hardware"]], ["box"])
            table.write_text("# mine\nbox 16 fast 2 0.5 a box\n")
            done = quire("plan", "gpt-2", "--hardware", table, "--device", "box")
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"mine.txt, line 2: read \(GB/s\) is 'fast'; expected a number")

    def test_wrong_names_and_numbers_get_one_clear_line(self):
        for pattern, *arguments in (
            ("no model 'lama-3-8b'; did you mean llama-3-8b?", "lama-3-8b"),
            ("no model: name one", ),
            ("did you mean h200?", "gpt-2", "--device", "h20"),
            ("'many' will not do; expected a whole number from 1", "gpt-2", "--sequences", "many"),
            ("'0' will not do; expected a whole number from 1", "gpt-2", "--ctx-size", "0"),
            ("--memory '80X' is not a size; expected", "gpt-2", "--memory", "80X"),
            ("--parameters 'x' will not do", "gpt-2", "--parameters", "x"),
            ("'q9' is not known; expected f32, f16", "gpt-2", "-ctk", "q9"),
            ("cache policy 'h3o' is not known", "gpt-2", "--cache-policy", "h3o"),
            ("5 KV heads for 12 query heads", "gpt-2", "--kv-heads", "5"),
        ):
            with self.subTest(pattern):
                done = quire("plan", *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(pattern, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertLessEqual(done.stderr.count("\n"), 2)
        self.assertEqual(quire("plan", "/nonexistent.gguf").returncode, 1)


if __name__ == "__main__":
    unittest.main()
