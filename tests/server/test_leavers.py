"""Clients that go away in the middle of an answer: their pages come back at once, all of them.

QUIRE_LEAVERS says how many; 1,000 by hand, 10,000 in `make test-long`.
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import time

from conftest import Server

AT_ONCE = 20
SOON = 0.1  # seconds, after the step in flight


def start_answer(server: Server, rng: random.Random) -> socket.socket:
    prompt = " ".join(rng.choice(["one", "two", "three"]) for _ in range(rng.randint(1, 8)))
    fields = {"prompt": prompt, "max_tokens": 4000, "ignore_eos": True, "stream": True, "cache_salt": str(rng.random())}
    body = json.dumps(fields).encode()
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return connection


def leave(connection: socket.socket, rng: random.Random) -> None:
    if rng.random() < 0.5:  # with a reset, as when a cable is pulled, and not with a farewell
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def state(server: Server) -> dict:
    return server.call("GET", "/v1/cache").json()["models"][0]


def test_pages_of_clients_that_leave_come_back(start):
    server = start("--ctx-size", "4096")
    count = int(os.environ.get("QUIRE_LEAVERS", "60"))
    rng = random.Random(5)
    waits: list[float] = []
    for number in range(-AT_ONCE, count, AT_ONCE):
        connections = [start_answer(server, rng) for _ in range(AT_ONCE)]
        for connection in connections:
            wanted = rng.choice([0, 1, 600])  # before any answer, at its head, within it
            seen = 0
            while seen < wanted:
                seen += len(connection.recv(4096))
        before = time.monotonic()
        for connection in connections:
            leave(connection, rng)
        while (now := state(server))["running"] or now["waiting"]:
            assert time.monotonic() - before < 20, now
            time.sleep(0.002)
        if number >= 0:  # in the first round all memory is touched for the first time
            waits.append(time.monotonic() - before)
        assert now["pages"]["open"] == 0, now
        assert now["bytes"]["used"] == 0, now
    waits.sort()
    shares = {"p50": waits[len(waits) // 2], "p99": waits[len(waits) * 99 // 100], "most": waits[-1]}
    print(f"\n{count} clients left; " + ", ".join(f"{name} {seconds * 1e3:.0f} ms" for name, seconds in shares.items()))
    assert waits[len(waits) // 2] < 5 * SOON  # on a machine that does other things besides
    assert server.call("DELETE", "/v1/cache").status == 200
    assert state(server)["bytes"]["cached"] == 0
