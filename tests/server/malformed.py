#!/usr/bin/env python3
"""Requests that no good client sends, by class, with the status each must get.

    tests/server/malformed.py PORT --count 10000     against a server that runs, its only model called "smol"

Every request is made from a seed, so what failed can be made again. test_malformed.py runs the short form.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

CHAT = {"model": "smol", "messages": [{"role": "user", "content": "Say ä, 你 and 🙂"}], "max_tokens": 1, "temperature": 0}
VALID = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": {"model": "smol", "prompt": "Hello", "max_tokens": 1, "stop": ["x"], "logit_bias": {"5": 1}},
    "/v1/messages": {**CHAT, "system": "Be brief."},
    "/v1/responses": {"model": "smol", "input": "Hello", "max_output_tokens": 1},
    "/v1/embeddings": {"model": "smol", "input": ["Hello", "there"]},
    "/tokenize": {"content": "Hello"},
    "/detokenize": {"tokens": [1, 2, 3]},
    "/v1/cache/lookup": {"prompt": "Hello"},
}
GENERATING = ["/v1/chat/completions", "/v1/completions"]
# Field: (least, most, whole numbers only).
BOUNDS = {
    "temperature": (0, 10, False),
    "top_p": (0, 1, False),
    "min_p": (0, 1, False),
    "typical_p": (0, 1, False),
    "repetition_penalty": (0.01, 10, False),
    "presence_penalty": (-2, 2, False),
    "frequency_penalty": (-2, 2, False),
    "top_k": (-1, 1 << 30, True),
    "repeat_last_n": (0, 1 << 20, True),
    "seed": (-(1 << 63), (1 << 63) - 1, True),
    "priority": (-1000, 1000, True),
    "cache_ttl": (0, 7 * 86400, False),
}
TYPES: dict[str, Callable[[random.Random], object]] = {
    "number": lambda rng: rng.choice([0, -1, 7, 1.5, 1e300]),
    "string": lambda rng: rng.choice(["", "x", "null", "1", "ä" * 50]),
    "list": lambda rng: rng.choice([[], [1], [[]], ["x"] * 9]),
    "object": lambda rng: rng.choice([{}, {"x": 1}, {"type": "x"}]),
    "boolean": lambda rng: rng.choice([True, False]),
}
# What each field may be.
ALLOWED = {
    "model": {"string"},
    "messages": {"list"},
    "max_tokens": {"number"},
    "temperature": {"number"},
    "top_p": {"number"},
    "seed": {"number"},
    "stream": {"boolean"},
    "stop": {"string", "list"},
    "logit_bias": {"object"},
    "response_format": {"object"},
    "grammar": {"string"},
    "ignore_eos": {"boolean"},
    "priority": {"number"},
    "cache_policy": {"string"},
    "cache_salt": {"string"},
    "speculation": {"string"},
}


@dataclass
class Case:
    kind: str
    data: bytes
    status: int


def http(path: str, body: bytes, *headers: bytes, method: bytes = b"POST") -> bytes:
    lines = [method + b" " + path.encode() + b" HTTP/1.1", b"Host: localhost", b"Connection: close", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def with_length(path: str, body: bytes) -> bytes:
    return http(path, body, b"Content-Type: application/json", b"Content-Length: %d" % len(body))


def encoded(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


def is_json_object(data: bytes) -> bool:
    def refuse(_: str) -> object:
        raise ValueError

    try:
        return isinstance(json.loads(data.decode("utf-8"), parse_constant=refuse), dict)
    except ValueError:
        return False


def broken_json(rng: random.Random) -> Case:
    path = rng.choice(list(VALID))
    while True:
        data = bytearray(encoded(VALID[path]))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            if rng.random() < 0.3:
                del data[at:]
            elif rng.random() < 0.5:
                data[at] = rng.choice(b'{}[]",:\\\x00\x1f0-.eE+tfn')
            else:
                data.insert(at, rng.choice(b'{}[]",:\\\x00\x01x9-'))
            if not data:
                break
        if not is_json_object(bytes(data)):
            return Case("broken JSON", with_length(path, bytes(data)), 400)


def wrong_type(rng: random.Random) -> Case:
    path = rng.choice(GENERATING)
    field = rng.choice([f for f in ALLOWED if f != "messages" or "chat" in path])
    kind = rng.choice([t for t in TYPES if t not in ALLOWED[field]])
    return Case("wrong type", with_length(path, encoded({**VALID[path], field: TYPES[kind](rng)})), 400)


def at_a_bound(rng: random.Random) -> Case:
    path = rng.choice(GENERATING)
    field = rng.choice(list(BOUNDS))
    return Case("at a bound", with_length(path, encoded({**VALID[path], field: rng.choice(BOUNDS[field][:2])})), 200)


def beyond_a_bound(rng: random.Random) -> Case:
    path = rng.choice(GENERATING)
    field = rng.choice(list(BOUNDS))
    least, most, whole = BOUNDS[field]
    step = 1 if whole else rng.choice([1e-3, 1, 1e6, 1e300])
    value = rng.choice([least - step, most + step] + ([0.5, 1e30] if whole else []))
    return Case("beyond a bound", with_length(path, encoded({**VALID[path], field: value})), 400)


def number_too_large(rng: random.Random) -> Case:
    path = rng.choice(GENERATING)
    field = rng.choice(list(BOUNDS)).encode()
    number = rng.choice([b"1e999", b"-1e999", b"9" * rng.randint(400, 5000)])
    body = encoded(VALID[path])[:-1] + b', "' + field + b'": ' + number + b"}"
    return Case("number too large", with_length(path, body), 400)


def bad_utf8(rng: random.Random) -> Case:
    path = rng.choice([p for p in VALID if p != "/detokenize"])
    bad = rng.choice([b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\xe4\xbd", b"\xf0\x9f\x99"])
    body = encoded(VALID[path])
    return Case("bad UTF-8", with_length(path, body[:-1] + b', "user": "' + bad + b'"}'), 400)


def deep_nesting(rng: random.Random) -> Case:
    path, depth = rng.choice(list(VALID)), rng.randint(65, 50_000)
    opened, closed = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
    inside = opened * depth + b"0" + closed * (depth if rng.random() < 0.5 else 0)
    return Case("deep nesting", with_length(path, encoded(VALID[path])[:-1] + b', "user": ' + inside + b"}"), 400)


def smuggled_length(rng: random.Random) -> Case:
    path, body = "/tokenize", b'{"content": "x"}'
    right = b"Content-Length: %d" % len(body)
    headers = rng.choice(
        [
            [right, b"Content-Length: %d" % rng.choice([0, 1, len(body) - 1, len(body) + 1])],
            [right, b"Transfer-Encoding: chunked"],
            [b"Transfer-Encoding: chunked", right],
            [b"Content-Length: -%d" % rng.randint(1, 99)],
            [b"Content-Length: +%d" % len(body)],
            [b"Content-Length: 0x%x" % len(body)],
            [b"Content-Length: %d, %d" % (len(body), len(body) + 1)],
            [b"Content-Length: %d %d" % (len(body), len(body))],
            [b"Content-Length: " + b"9" * rng.randint(20, 60)],
            [b"Content-Length:"],
            [b"Content-Length: \xef\xbc\x91"],
            [b"Transfer-Encoding: chunked, identity"],
        ]
    )
    return Case("smuggled length", http(path, body, *headers), 400)


def oversize_headers(rng: random.Random) -> Case:
    headers = rng.choice(
        [
            [b"x: " + b"y" * rng.randint(17_000, 60_000)],
            [b"x%d: y" % i for i in range(rng.randint(110, 400))],
            [b"x" * rng.randint(17_000, 30_000) + b": y"],
        ]
    )
    return Case("oversize headers", http("/health", b"", *headers, method=b"GET"), 431)


def oversize_body(rng: random.Random) -> Case:
    length = rng.choice([33 << 20, 1 << 31, 1 << 40, (1 << 63) - 1])
    return Case("oversize body", http(rng.choice(list(VALID)), b"", b"Content-Length: %d" % length), 413)


def no_such_thing(rng: random.Random) -> Case:
    path = "/" + "".join(rng.choice("abc/.%20?v1") for _ in range(rng.randint(3, 40))).lstrip("?")
    return Case("no such path", http("/nothing" + path, b"", method=rng.choice([b"GET", b"DELETE"])), 404)


def wrong_method(rng: random.Random) -> Case:
    method = rng.choice([b"GET", b"PUT", b"DELETE", b"PATCH"])
    return Case("wrong method", http(rng.choice(list(VALID)), b"", method=method), 405)


def no_http(rng: random.Random) -> Case:
    garbage = bytes(rng.choice(b"\x00\x01\x16\x80\xffABC {}:/") for _ in range(rng.randint(1, 300)))
    start = rng.choice([b"", b"GET", b"GET / HTTP/9.9\r\n", b"GET  HTTP/1.1\r\n", b"\x16\x03\x01\x02", b"PRI * HTTP/2.0\r\n"])
    return Case("no HTTP", b"\x01" + start + garbage + b"\r\n\r\n", 400)


KINDS = [
    broken_json, wrong_type, at_a_bound, beyond_a_bound, number_too_large, bad_utf8, deep_nesting, smuggled_length,
    oversize_headers, oversize_body, no_such_thing, wrong_method, no_http,
]


def cases(count: int, seed: int = 1) -> Iterator[Case]:
    for i in range(count):
        yield KINDS[i % len(KINDS)](random.Random(seed * 1_000_003 + i))


def status_of(port: int, data: bytes) -> int:
    """0 where the server said nothing."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        answer = b""
        try:
            connection.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all was sent; the answer is there
        try:
            while b"\r\n" not in answer and (part := connection.recv(4096)):
                answer += part
        except ConnectionResetError:
            pass
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else 0


def campaign(port: int, count: int, seed: int = 1) -> tuple[collections.Counter, list[str]]:
    """How many of each kind were answered as they should be, and what was not."""
    good: collections.Counter = collections.Counter()
    wrong: list[str] = []
    for number, case in enumerate(cases(count, seed)):
        got = status_of(port, case.data)
        if got == case.status:
            good[case.kind] += 1
        else:
            wrong.append(f"{number}, {case.kind}: {got} instead of {case.status}: {case.data[:300]!r} ... {case.data[-80:]!r}")
    return good, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    good, wrong = campaign(args.port, args.count, args.seed)
    for kind, number in good.items():
        print(f"{kind}: {number} as expected")
    print("\n".join(wrong[:50]))
    print(f"{args.count} requests, {len(wrong)} not as expected")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
