#!/usr/bin/env python3
"""Writes tests/data/tokenizer/: texts and the ids that llama.cpp gives them.

Needs llama-cpp-python and gguf. Two kinds of file come out, one JSON value per line:

  tiny_*.jsonl   a small vocabulary made here (first line), then its cases
  NAME.jsonl     cases for a real model, whose vocabulary the tests read from models/

A case is [text in hex, add_special, parse_special, ids].

  scripts/oracles/tokenizer_fixtures.py models/SmolLM2-135M-Instruct.Q4_1.gguf models/gemma-3-270m-q4_k_m.gguf
"""

import argparse
import json
import random
import re
import tempfile
from pathlib import Path

import gguf
import llama_cpp

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
PRETOKENIZERS = ["default", "gpt-2", "smollm", "llama-bpe", "qwen2"]
OUT = Path(__file__).resolve().parents[2] / "tests" / "data" / "tokenizer"

# llama.cpp stops the program when bytes spell a number above U+10FFFF.
TOO_LARGE = re.compile(rb"\xf4[\x90-\xbf][\x80-\xbf]{2}|[\xf5-\xf7][\x80-\xbf]{3}", re.S)

HAND_PICKED = [
    "", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\t\t\tx", " \n", "\n ", "  \n  \n\n ", "a", " a", "a ", "  a  ",
    "Hello, world!", "Hello,world!Hello , world !", "The quick brown fox jumps over the lazy dog.",
    "I'm you're he's we'll they've it'd don't", "I'M YOU'RE HE'S WE'LL THEY'VE IT'D DON'T", "'S 'LL 'Ve x'Re 'sa 'ſ",
    "1", "12", "123", "1234", "12345678901234567890", "3.14159", "1,000,000", " 42 ", "v1.2.3-rc4", "²³¼Ⅷ٣४五",
    "def f(x):\n    return x * 2  # twice\n\n\tif x:\n\t\tpass\n", "for (int i = 0; i < n; ++i) { a[i] += b[i]; }",
    "<html><body class=\"x\">&amp;</body></html>", "SELECT * FROM t WHERE a='b';", "https://example.org/a?b=c&d=%20#e",
    "👩‍👩‍👧‍👦 👍🏽 🏳️‍🌈 🇩🇪🇫🇷 ☺️", "日本語のテキスト、漢字とかな。", "中文没有空格的句子，标点也不同。", "한국어 문장입니다.",
    "مرحبا بالعالم، كيف حالك؟", "שלום עולם", "नमस्ते दुनिया", "สวัสดีชาวโลก", "Привет, мир!", "Ελληνικά", "Zażółć gęślą jaźń",
    "e\u0301 a\u0308o\u0308 n\u0303\u0327", "a\u0300\u0301\u0302\u0303\u0304", "ﬁ ﬂ Ａｂｃ １２３", "\u00a0x\u2003y\u3000z\u1680\u2028\u2029\u0085",
    "\u180e \u200b\u200d\ufeff\u2060", "\x00", "a\x00b", "\x01\x02\x1b[31mred\x1b[0m\x7f", "\x1c\x1d\x1e\x1f", "\u0378\U000e0001\U0010ffff\ue000\uffff",
    "\U00031350\U0002ebf0\U0001e4d0\U0001e4f0\U00011f43 \U00011f50", "…—“”‘’«»", "!!!???...", "$$$ +++ <<>> ^^ ~~ || ``", "a_b_c __init__ --flag",
    "▁", "▁▁▁", "a▁b", " ▁ ", "<0x41>", "<0x0A><0xFF>", "Ġ Ċ ĉ", "   indented\n      more\n", "a\n\n\n\nb\n\n\nc", "\n" * 40, " " * 70, "\t" * 20,
    "> </", "a> </b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ABABABABAB", "the the the", "supercalifragilisticexpialidocious",
    "<s>", "</s>", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|endoftext|>", "x<|im_end|>y", " <|im_end|> ", "<|im_end|><|im_end|>",
    "<start_of_turn>user\nHi<end_of_turn>\n", "<bos><eos><pad><unk>", "<unused7>", "<mask> [multimodal]", "<|im_start", "<reponame>a<file_sep>", "<table><tr><td>x</td></tr></table>",
    "<strong>b</strong> <h1>t</h1> </s> <i>", "[SEP]x [SEP] y[SEP]", "<ctrl>a<ctrl>",
]  # fmt: skip
BROKEN = [
    b"\x80", b"\xbf\xbf", b"\xff", b"a\xffb", b"\xc3", b"\xc3(", b"\xe2\x96", b"\xe2\x96 ", b"\xe2 x", b"x\xe2\x82", b"\xf0\x9f\x91", b"\xf0\x9f a",
    b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xf0\x80\x80\x80", b"\xed\xa0\x80", b"\xed\xbf\xbf a \xed\xa0\x80b", b"\xf8\x88\x80\x80\x80", b"\xfe\xfe",
    b"caf\xe9", b"\xe9\xe8 1\xff2", b"\xed\xa0\xbd\xed\xb8\x80", b"  \xff  ", b"\xf4\x8f\xbf\xbf", b"\xc3\xa9\xc3",
]  # fmt: skip
FRAGMENTS = [
    "a", "b", "the", " the", "ing", "Word", "HTTP", "x", "é", "ß", "日", "本語", "ก", "ع", "한", "👍", "🏽", "\u200d", "\ufe0f", "\u0301", "\u0308", "1", "23", "456", "7890",
    "²", "४", " ", "  ", "    ", "\n", "\n\n", "\r\n", "\r", "\t", "\u00a0", "\u3000", "\u2028", "\v", ".", ",", "!", "?", "'", "'s", "'S", "'ll", "'LL", "'Re", "\"", "(", ")",
    "[", "]", "{", "}", "<", ">", "</", "=", "==", "+", "-", "--", "_", "/", "\\", "*", "&", "%", "$", "#", "@", "^", "~", "|", "`", "…", "—", "“", "€", "∑", "▁", "▁▁", "\x00", "\x1f",
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>", "<unused3>", "[multimodal]", "<h1>", "</s>", "<s>", "<0x0A>", "[SEP]", "<ctrl>",
]  # fmt: skip


def random_text(rng):
    """One of several kinds of text that hardly anybody writes."""
    kind = rng.randrange(6)
    length = rng.choice([1, 2, 3, 5, 8, 13, 21, 40])
    if kind == 0:
        return "".join(rng.choice(FRAGMENTS) for _ in range(length)).encode()
    if kind == 1:
        return " ".join(rng.choice(FRAGMENTS) for _ in range(length)).encode()
    if kind == 2:  # any characters at all
        points = (rng.choice([0x80, 0x250, 0x3000, 0x10000, 0x110000]) for _ in range(length))
        return "".join(chr(c) for c in (rng.randrange(p) for p in points) if not 0xD800 <= c < 0xE000).encode()
    if kind == 3:  # any bytes at all
        return bytes(rng.randrange(256) for _ in range(length))
    if kind == 4:  # characters with bytes missing or changed
        data = bytearray("".join(rng.choice(FRAGMENTS) for _ in range(length)).encode())
        for _ in range(1 + length // 8):
            at = rng.randrange(len(data))
            data[at : at + 1] = rng.choice([b"", b"\xff", b"\x80", bytes([rng.randrange(256)])])
            data = data or bytearray(b"a")
        return bytes(data)
    runs = rng.choice(["a", " ", "\n", "1", "日", "-", "\t", "'s", "\r\n", "▁", "e\u0301"])  # runs
    return (rng.choice(FRAGMENTS) + runs * rng.randrange(1, 60) + rng.choice(FRAGMENTS)).encode()


def texts(count, seed):
    picked = [t.encode() for t in HAND_PICKED] + BROKEN
    rng = random.Random(seed)
    while len(picked) < count:
        picked.append(random_text(rng))
    return [t for t in picked[:count] if not TOO_LARGE.search(t)]


def small_texts(alphabet, count, seed):
    """Texts over few characters, so that every neighbourhood of character classes occurs."""
    rng = random.Random(seed)
    return ["".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 9))).encode() for _ in range(count)]


def tokenize(model_path, inputs):
    """Cases: every text in each of the ways it can be asked for."""
    model = llama_cpp.Llama(str(model_path), vocab_only=True, verbose=False)
    return [
        [text.hex(), add, parse, model.tokenize(text, add_bos=add, special=parse)]
        for text in inputs
        for add, parse in ((False, False), (True, True))
    ]


def byte_alphabet():
    """How byte-level vocabularies spell each byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spelled = {b: chr(b) for b in plain}
    for b in range(256):
        if b not in spelled:
            spelled[b] = chr(256 + len(spelled) - len(plain))
    return [spelled[b] for b in range(256)]


CLASS_ALPHABET = ["a", "s", "S", "l", "é", "日", "\u0301", "1", "2", "²", " ", "\n", "\r", "\t", "\u00a0", "'", "!", "$", "_", "\x01"]


def tiny_bpe():
    """Merges any two neighbours of CLASS_ALPHABET: what stays apart was cut apart."""
    spell = byte_alphabet()
    words = lambda text: "".join(spell[b] for b in text.encode())
    merges, made = [], set(spell)

    def merge(left, right):
        if left + right not in made:
            made.add(left + right)
            merges.append(f"{left} {right}")

    for c in CLASS_ALPHABET:  # characters of several bytes first
        units = [spell[b] for b in c.encode()]
        for i in range(1, len(units)):
            merge("".join(units[:i]), units[i])
    for a in CLASS_ALPHABET:
        for b in CLASS_ALPHABET:
            merge(words(a), words(b))
    for a, b in [("11", "11"), ("aa", "aa"), ("  ", "  "), ("\n\n", "\n\n"), (" a", "a"), ("'s", "a"), ("!!", "\n"), ("aaaa", "aaaa")]:
        merge(words(a), words(b))
    tokens = spell + ["".join(m.split(" ")) for m in merges] + ["<s>", "</s>", "<ctrl>", "[SEP]", "[SEP][SEP]", "SEP]x"]
    types = [NORMAL] * (len(tokens) - 6) + [CONTROL] * 3 + [USER_DEFINED] * 3
    bos = len(tokens) - 6
    return {"model": "gpt2", "tokens": tokens, "types": types, "merges": merges, "bos": bos, "eos": bos + 1}


def tiny_spm(space_prefix, equal_scores):
    pieces = ["▁", "▁▁", "▁▁▁▁", *"abcdehilnorstuwxy123.,'<>/", "é", "日", "本", "日本", "th", "he", "the", "▁the", "▁th", "in", "ing", "an", "▁a", "▁an", "aa", "aaa",
              "aaaa", "ab", "ba", "bab", "er", "her", "▁he", "llo", "lo", "ll", "hell", "hello", "▁hello", "12", "23", "123", "> ▁</", "s,", ", ▁"]  # fmt: skip
    pieces = list(dict.fromkeys(p.replace(" ", "") for p in pieces))
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + pieces + ["<ctrl>", "[SEP]", "\n", "\n\n", "\n\n\n", "  ", "   "]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(pieces) + [CONTROL] + [USER_DEFINED] * 6
    rng = random.Random(7)
    scores = [0.0] * 259 + [0.0 if equal_scores else -float(rng.randrange(20)) for _ in pieces] + [-1000.0] * 7
    return {"model": "llama", "tokens": tokens, "types": types, "scores": scores, "bos": 1, "eos": 2, "unk": 0, "add_bos": True,
            "add_eos": space_prefix, "add_space_prefix": space_prefix}  # fmt: skip


def write_gguf(path, vocab, pre="default"):
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model(vocab["model"])
    w.add_tokenizer_pre(pre)
    w.add_token_list(vocab["tokens"])
    w.add_token_types(vocab["types"])
    if "scores" in vocab:
        w.add_token_scores(vocab["scores"])
    if "merges" in vocab:
        w.add_token_merges(vocab["merges"])
    w.add_bos_token_id(vocab["bos"])
    w.add_eos_token_id(vocab["eos"])
    if "unk" in vocab:
        w.add_unk_token_id(vocab["unk"])
    if "add_bos" in vocab:
        w.add_add_bos_token(vocab["add_bos"])
    if "add_eos" in vocab:
        w.add_add_eos_token(vocab["add_eos"])
    if "add_space_prefix" in vocab:
        w.add_add_space_prefix(vocab["add_space_prefix"])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def write_lines(path, rows):
    dump = lambda row: json.dumps(row, separators=(",", ":"), ensure_ascii=False)
    path.write_text("".join(dump(row) + "\n" for row in rows))
    print(f"{path.name}: {len(rows)} lines, {path.stat().st_size / 1000:.0f} kB")


def tiny_fixtures():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiny.gguf"
        vocab = tiny_bpe()
        inputs = texts(130, seed=3) + small_texts(CLASS_ALPHABET + ["[SEP]", "x"], 250, seed=4)
        rows = [vocab]
        for pre in PRETOKENIZERS:
            write_gguf(path, vocab, pre)
            rows.append({"pre": pre})
            rows += tokenize(path, inputs)[:: 1 if pre == "llama-bpe" else 2]  # the rest add nothing to a text
        write_lines(OUT / "tiny_bpe.jsonl", rows)

        alphabet = ["a", "b", "the", "h", "e", "l", "o", "1", "2", "3", " ", "  ", "▁", "日", "本", "é", "\n", "[SEP]", "> </", "</s>", "<ctrl>", ", "]
        inputs = texts(130, seed=5) + small_texts(alphabet, 120, seed=6)
        for name, prefix, equal in (("tiny_spm", True, False), ("tiny_spm_no_prefix", False, False), ("tiny_spm_equal_scores", False, True)):
            vocab = tiny_spm(prefix, equal)
            write_gguf(path, vocab)
            write_lines(OUT / f"{name}.jsonl", [vocab, *tokenize(path, inputs)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, help="real models, for which cases are written too")
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    tiny_fixtures()
    for model in arguments.models:
        write_lines(OUT / f"{model.stem}.jsonl", tokenize(model, texts(300, seed=1)))


if __name__ == "__main__":
    main()
