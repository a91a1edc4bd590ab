"""The quire program as a user meets it: answers, errors, exit statuses, JSON, chat on a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from support.quire_program import QUIRE, ROOT, quire, quire_json, tiny_model

GREEDY = ["--temp", "0"]


class Run(unittest.TestCase):
    def test_json_has_the_fields_scripts_read(self):
        out = quire_json("run", "-m", tiny_model(), "-p", "Hello", "-n", "5", *GREEDY)
        self.assertEqual(set(out), {"model", "text", "tokens", "stop", "timings", "computed_tokens", "cache"})
        self.assertEqual(
            set(out["timings"]),
            {"prompt_n", "prompt_ms", "prompt_per_second", "cache_n", "predicted_n", "predicted_ms", "predicted_per_second",
             "ttft_ms", "itl_p50_ms", "itl_p99_ms", "draft_n", "draft_n_accepted"},
        )
        self.assertEqual(
            set(out["cache"]), {"policy", "type_k", "type_v", "page_tokens", "tokens", "bytes", "bytes_per_token", "pages"}
        )
        self.assertEqual(out["timings"]["predicted_n"], len(out["tokens"]))
        self.assertIn(out["stop"], ("eos", "length"))
        prompt = out["timings"]["prompt_n"]
        self.assertEqual(out["computed_tokens"], prompt + max(0, len(out["tokens"]) - (out["stop"] == "length")))

    def test_only_json_on_standard_output(self):
        done = quire("run", "-m", tiny_model(), "-p", "Hi", "-n", "3", "--json")
        json.loads(done.stdout)
        self.assertEqual(done.stderr, "")

    def test_text_on_standard_output_figures_on_standard_error(self):
        done = quire("run", "-m", tiny_model(), "-p", "Hello", "-n", "4", *GREEDY)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout.startswith("Hello"))
        self.assertRegex(done.stderr, r"prefill \d+ tokens \(0 cached\) \d+ tok/s, first token")
        self.assertIn("cache: ", done.stderr)
        self.assertNotIn("\033", done.stdout + done.stderr, "colours only on a terminal")

    def test_prompt_from_file_and_standard_input(self):
        model = tiny_model()
        file = Path(model).with_suffix(".txt")
        file.write_text("Hello there")
        by_flag = quire_json("run", "-m", model, "-p", "Hello there", "-n", "8", *GREEDY)
        by_file = quire_json("run", "-m", model, "-f", file, "-n", "8", *GREEDY)
        by_stdin = quire_json("run", "-m", model, "-n", "8", *GREEDY, stdin="Hello there")
        self.assertEqual(by_flag["tokens"], by_file["tokens"])
        self.assertEqual(by_flag["tokens"], by_stdin["tokens"])

    def test_same_seed_same_text(self):
        run = lambda seed: quire_json("run", "-m", tiny_model(), "-p", "Once", "-n", "24", "--temp", "1", "--seed", seed)["tokens"]
        self.assertEqual(run("5"), run("5"))
        self.assertNotEqual(run("5"), run("6"))

    def test_no_cache_reports_its_price(self):
        cached = quire_json("run", "-m", tiny_model(), "-p", "Hello there", "-n", "6", *GREEDY)
        naive = quire_json("run", "-m", tiny_model(), "-p", "Hello there", "-n", "6", "--no-cache", *GREEDY)
        self.assertEqual(cached["tokens"], naive["tokens"])
        self.assertEqual(naive["cache"]["bytes"], 0)
        self.assertGreater(cached["cache"]["bytes"], 0)
        steps, prompt = len(naive["tokens"]) + (naive["stop"] == "eos"), naive["timings"]["prompt_n"]
        self.assertEqual(naive["computed_tokens"], sum(prompt + i for i in range(steps)))

    def test_f32_cache_is_twice_as_large(self):
        size = lambda *types: quire_json("run", "-m", tiny_model(), "-p", "a", "-n", "1", *types)["cache"]["bytes_per_token"]
        self.assertEqual(size("-ctk", "f32", "-ctv", "f32"), 2 * size())
        self.assertEqual(2 * size("-ctk", "f32"), 3 * size())

    def test_context_full_ends_the_answer(self):
        out = quire_json("run", "-m", tiny_model(), "-p", "Hello", "-c", "16", "--temp", "1.5", "--seed", "1", "--min-p", "0")
        self.assertEqual(out["stop"], "length")
        self.assertLessEqual(out["timings"]["prompt_n"] + out["timings"]["predicted_n"], 17)

    def test_chat_template_is_applied_on_request(self):
        plain = quire_json("run", "-m", tiny_model(), "-p", "Hi", "-n", "1")
        chat = quire_json("run", "-m", tiny_model(), "-p", "Hi", "-n", "1", "--chat", "--system", "Be brief.")
        self.assertGreater(chat["timings"]["prompt_n"], plain["timings"]["prompt_n"])

    def test_every_architecture_answers(self):
        for arch in ("llama", "gemma3", "qwen2", "qwen3", "gpt2"):
            with self.subTest(arch):
                self.assertGreater(quire_json("run", "-m", tiny_model(arch), "-p", "Hello", "-n", "4", *GREEDY)["computed_tokens"], 0)

    def test_model_from_the_environment(self):
        out = quire_json("run", "-p", "Hi", "-n", "1", env={"QUIRE_MODEL": str(tiny_model())})
        self.assertEqual(out["model"], str(tiny_model()))


class Errors(unittest.TestCase):
    def check(self, status: int, pattern: str, *arguments, **kwargs):
        done = quire(*arguments, **kwargs)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, pattern)
        self.assertEqual(done.stdout, "")
        self.assertLessEqual(done.stderr.count("\n"), 2, done.stderr)

    def test_wrong_command_lines_exit_2(self):
        model = tiny_model()
        self.check(2, "--frobnicate", "run", "--frobnicate")
        self.check(2, "subcommand", )
        self.check(2, "temperature is -1; expected 0 or more", "run", "-m", model, "-p", "a", "--temp", "-1")
        self.check(2, "top-p is 2", "run", "-m", model, "-p", "a", "--top-p", "2")
        self.check(2, "'q9' is not known; expected f32, f16", "run", "-m", model, "-p", "a", "-ctk", "q9")
        self.check(2, "cache policy 'h3o' is not known", "run", "-m", model, "-p", "a", "--cache-policy", "h3o")
        self.check(2, "kernels 'x87'", "run", "-m", model, "-p", "a", "--kernels", "x87")
        self.check(2, "a context of 99999999 tokens", "run", "-m", model, "-p", "a", "-c", "99999999")
        self.check(2, "prompt is empty", "run", "-m", tiny_model("qwen2"), "-p", "")
        self.check(2, "excludes", "run", "-m", model, "-p", "a", "-f", "b")
        self.check(2, "--predict", "run", "-m", model, "-p", "a", "-n", "-7")

    def test_missing_and_broken_files_exit_1(self):
        self.check(1, "/nonexistent.gguf: cannot open: No such file", "run", "-m", "/nonexistent.gguf", "-p", "a")
        self.check(1, "LICENSE: not a GGUF file", "run", "-m", ROOT / "LICENSE", "-p", "a")
        self.check(1, "nonexistent.txt: cannot open the text file", "run", "-m", tiny_model(), "-f", "/nonexistent.txt")
        broken = Path(tiny_model()).with_suffix(".cut")
        broken.write_bytes(Path(tiny_model()).read_bytes()[:-100])
        self.check(1, "reaches past the", "run", "-m", broken, "-p", "a")

    def test_prompt_longer_than_the_context(self):
        self.check(1, r"\d+ tokens do not fit in the context of 8; raise -c", "run", "-m", tiny_model(), "-c", "8", "-p", "word " * 40)

    def test_no_model_at_all(self):
        folder = Path(tiny_model()).parent / "elsewhere/build/program"  # no models/ near it
        folder.mkdir(parents=True)
        program = shutil.copy(QUIRE, folder / "quire")
        done = subprocess.run([program, "run", "-p", "a"], cwd=folder, capture_output=True, text=True,
                              env={**os.environ, "QUIRE_MODEL": ""})
        self.assertEqual(done.returncode, 1)
        self.assertIn("no model: give one with -m", done.stderr)

    def test_closed_or_full_outputs(self):
        run = lambda tail: subprocess.run(f"{QUIRE} {tail}", shell=True, capture_output=True).returncode
        model = tiny_model()
        self.assertEqual(run(f"run -m {model} -p a -n 2 2>&-"), 0)
        self.assertEqual(run(f"run -m {model} -p a -n 2 2>/dev/full"), 0)
        self.assertEqual(run("run -m /nonexistent 2>&-"), 1)
        self.assertEqual(run(f"run -m {model} -p a -n 2 >/dev/full"), 1)
        self.assertEqual(run(f"inspect {model} >/dev/full"), 1)

    def test_odd_texts_are_texts(self):
        self.assertTrue(quire("run", "-m", tiny_model(), "-p", "-ctk", "-n", "1").stdout.startswith("-ctk"))
        self.check(1, "a folder; expected a text file", "run", "-m", tiny_model(), "-f", "/tmp")

    def test_the_last_of_several_wins(self):
        self.assertEqual(len(quire_json("run", "-m", tiny_model(), "-p", "a", "-n", "5", "-n", "1", *GREEDY)["tokens"]), 1)

    def test_a_pipe_is_no_model(self):
        fifo = Path(tiny_model()).with_suffix(".fifo")
        os.mkfifo(fifo)
        self.check(1, "not a regular file", "run", "-m", fifo, "-p", "a")

    def test_thread_limits_are_lived_with(self):
        command = f"ulimit -v 1000000; {QUIRE} run -m {tiny_model()} -p a -n 2 -t 1024"
        self.assertGreaterEqual(subprocess.run(command, shell=True, capture_output=True).returncode, 0)


class OtherCommands(unittest.TestCase):
    def test_version_and_help(self):
        self.assertRegex(quire("--version").stdout, r"^quire \d+\.\d+\.\d+\n$")
        for command in ([], ["run"], ["perplexity"], ["inspect"]):
            done = quire(*command, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("--help", done.stdout)

    def test_inspect(self):
        done = quire("inspect", tiny_model(), "--tensors")
        self.assertEqual(done.returncode, 0)
        self.assertIn("llama.block_count", done.stdout)
        self.assertIn("token_embd.weight", done.stdout)
        self.assertIn("bytes per token", done.stdout)
        out = quire_json("inspect", tiny_model())
        self.assertEqual(out["metadata"]["general.architecture"], '"llama"')
        self.assertTrue(out["runs"])
        self.assertEqual(out["file_bytes"], Path(tiny_model()).stat().st_size)
        self.assertEqual((out["kv"]["layers"], out["kv"]["kv_heads"], out["kv"]["head_dim"]), (2, 2, 32))
        self.assertEqual(out["kv"]["bytes_per_token"], 2 * 2 * 2 * 32 * 2)
        self.assertEqual(len(out["kv"]["formats"]), 10)
        self.assertGreater(out["tokenizer"]["tokens"], 90)
        local = quire_json("inspect", tiny_model("gemma3"))
        self.assertGreater(local["kv"]["window_layers"], 0)
        self.assertLess(local["kv"]["bytes_at_context"], local["kv"]["bytes_per_token"] * local["model"]["context"], "windows keep less")

    def test_inspect_refuses_broken_files(self):
        whole = Path(tiny_model()).read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            broken = Path(folder) / "broken.gguf"
            for content, said in ((whole[: len(whole) // 2], "broken.gguf"), (b"not a model", "broken.gguf"), (b"", "broken.gguf"),
                                  (whole.replace(b"blk.1.attn_k.weight", b"blk.1.attn_z.weight"), "blk.1.attn_k.weight"),
                                  (whole.replace(b"llama", b"abcde"), "abcde")):
                with self.subTest(said):
                    broken.write_bytes(content)
                    done = quire("inspect", broken)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn(said, done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1)

    def test_perplexity(self):
        text = Path(tiny_model()).with_suffix(".txt")
        text.write_text("the quick brown fox jumps over the lazy dog. " * 40)
        out = quire_json("perplexity", "-m", tiny_model(), "-f", text, "-c", "32", "--chunks", "3", "--kld", "-ctk", "f32")
        self.assertEqual(out["chunks"], 3)
        self.assertEqual(out["scored_tokens"], 3 * 15)
        self.assertGreater(out["perplexity"], 1)
        self.assertGreater(out["kld"]["mean"], 0)
        self.assertLess(out["kld"]["mean"], 0.01)
        same = quire_json("perplexity", "-m", tiny_model(), "-f", text, "-c", "32", "--chunks", "2", "--kld")
        self.assertEqual(same["kld"]["mean"], 0)
        self.assertEqual(same["kld"]["same_top_percent"], 100)

    def test_perplexity_needs_a_chunk(self):
        done = quire("perplexity", "-m", tiny_model(), "-f", "-", "-c", "64", stdin="short")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"the text has \d+ tokens; one chunk needs 64")


class Terminal:
    """The program on a pseudo-terminal."""

    def __init__(self, *arguments):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(QUIRE, [QUIRE, *map(str, arguments)])
        self.seen = ""

    def send(self, text: str):
        time.sleep(0.3)  # what arrives while the program changes the terminal's mode is discarded
        os.write(self.fd, text.encode())

    def wait_for(self, pattern: str, timeout: float = 60) -> str:
        end = time.monotonic() + timeout
        while not (found := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"no {pattern!r} in {self.seen!r}")
            try:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"ended before {pattern!r}: {self.seen!r}") from None
        result, self.seen = self.seen[: found.end()], self.seen[found.end():]
        return result

    def close(self, keys: str = "", timeout: float = 30) -> int:
        """Waits for the end; keys are sent until it comes, since one sent while the terminal changes mode is lost."""
        end = time.monotonic() + timeout
        while (ended := os.waitpid(self.pid, os.WNOHANG)) == (0, 0):
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError(f"does not end; last output: {self.seen!r}")
            if keys:
                with contextlib.suppress(OSError):  # it has just ended
                    self.send(keys)
            time.sleep(0.1)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(ended[1])


class Chat(unittest.TestCase):
    def test_turns_reuse_the_cache(self):
        t = Terminal("run", "-m", tiny_model(), "-n", "8", "--temp", "0")
        t.wait_for("> ")
        t.send("Hello\n")
        t.wait_for("\n> ")
        t.send("/stats\n")
        self.assertIn("(0 cached)", t.wait_for(r"prefill .*\n.*\n> "))
        t.send("And again\n")
        t.wait_for("\n> ")
        t.send("/stats\n")
        self.assertRegex(t.wait_for(r"prefill .*\n.*\n> "), r"\([1-9]\d* cached\)")
        t.send("/reset\n")
        t.wait_for("started over")
        t.wait_for("> ")
        t.send("/nonsense\n")
        t.wait_for("no command /nonsense")
        self.assertEqual(t.close(keys="/exit\n"), 0)

    def test_control_c_stops_the_answer_not_the_program(self):
        t = Terminal("run", "-m", tiny_model("llama", "--ctx", "65536"), "-c", "60000", "--temp", "5", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed", "4", "--ignore-eos")
        t.wait_for("> ")
        t.send("Hello\n")
        t.wait_for(r"(?s)Hello\r\n.{20}")
        os.kill(t.pid, signal.SIGINT)
        t.wait_for("\n> ")
        t.send("/stats\n")
        t.wait_for(r"decode .*\n.*\n> ")
        self.assertEqual(t.close(keys="\x04"), 0)

    def test_control_c_at_the_prompt_only_starts_a_new_line(self):
        t = Terminal("run", "-m", tiny_model(), "-n", "4", "--temp", "0")
        t.wait_for("> ")
        t.send("hel")
        t.wait_for("hel")
        for _ in range(20):  # one that comes while the line is redrawn is lost, as it may be for people
            os.kill(t.pid, signal.SIGINT)
            time.sleep(0.1)
        t.wait_for("\n> ")
        t.send("/stats\n")
        t.wait_for("cache: 0 tokens")
        t.wait_for("> ")
        os.kill(t.pid, signal.SIGSTOP)
        os.kill(t.pid, signal.SIGCONT)
        t.send("/stats\n")
        t.wait_for("cache: 0 tokens")
        t.wait_for("> ")
        self.assertEqual(t.close(keys="\x04"), 0)

    def test_full_context_is_explained(self):
        hot = ["--temp", "5", "--top-k", "0", "--top-p", "1", "--min-p", "0"]
        for seed in range(10):  # until an answer does not end before
            t = Terminal("run", "-m", tiny_model(), "-c", "60", *hot, "--seed", seed)
            t.wait_for("> ")
            t.send("Hello\n")
            if "the context of 60 tokens is full" in t.wait_for("is full|\n> "):
                break
            t.close(keys="/exit\n")
        else:
            self.fail("no answer was cut short")
        t.wait_for("> ")
        t.send("more\n")
        t.wait_for("no longer fits: .*do not fit in the context of 60")
        t.wait_for("> ")
        t.send("/reset\n")
        t.wait_for("started over")
        t.wait_for("> ")
        self.assertEqual(t.close(keys="/exit\n"), 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
