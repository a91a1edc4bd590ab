"""Cached pages outlive the server: saved, restored after a restart, found, and answered from as before."""

from __future__ import annotations

import http.client
import json
import os
import random
from pathlib import Path

import pytest
from conftest import ROOT, Reply, Server

SYSTEM = "You are a careful librarian who answers in one short sentence. " * 12
MESSAGES = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Where are the maps?"}]
GEMMA = ROOT / "models/gemma-3-270m-q4_k_m.gguf"


def call(server: Server, path: str, body: dict, key: str = "") -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        connection.request("POST", path, json.dumps(body), {"Authorization": f"Bearer {key}"} if key else {})
        reply = connection.getresponse()
        return Reply(reply.status, {}, reply.read().decode())
    finally:
        connection.close()


def good(reply: Reply) -> dict:
    assert reply.status == 200, reply.text
    return reply.json()


def chat(server: Server, key: str = "", **more: object) -> tuple[str, int]:
    body = {"messages": MESSAGES, "max_tokens": 24, "temperature": 0.8, "seed": 7, **more}
    answer = good(call(server, "/v1/chat/completions", body, key))
    return answer["choices"][0]["message"]["content"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


@pytest.mark.parametrize("cache_type", ["f16", "q8", "q4"])
def test_a_conversation_survives_a_restart(start, tmp_path: Path, cache_type: str) -> None:
    options = ("--cache-save-path", str(tmp_path / "saved"), "--cache-type-k", cache_type, "--cache-type-v", cache_type)
    server = start(*options)
    before, cached = chat(server)
    assert cached == 0
    saved = good(call(server, "/v1/cache/save", {"messages": MESSAGES, "filename": "maps.kv"}))
    assert saved["saved_tokens"] == saved["prompt_tokens"] // 32 * 32 > 100
    (file,) = (tmp_path / "saved").glob("*/maps.kv")
    assert file.stat().st_size == saved["bytes"] and file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700 and len(file.parent.name) == 32
    assert server.stop() == 0

    server = start(*options)
    restored = good(call(server, "/v1/cache/restore", {"filename": "maps.kv"}))
    assert restored["restored_tokens"] == restored["reusable_tokens"] == restored["saved_tokens"] == saved["saved_tokens"]
    assert restored["prompt_tokens"] == saved["prompt_tokens"] and restored["bytes"] == saved["bytes"]
    assert good(call(server, "/v1/cache/lookup", {"messages": MESSAGES}))["cached_tokens"] == restored["reusable_tokens"]
    after, cached = chat(server)
    assert cached == restored["reusable_tokens"], "what was promised is found"
    assert after == before
    again = good(call(server, "/v1/cache/restore", {"filename": "maps.kv"}))
    assert again["restored_tokens"] == 0 and again["cached_tokens"] == saved["saved_tokens"]


@pytest.mark.skipif(not GEMMA.exists(), reason="needs the Gemma model")
def test_layers_with_a_window_too(start, tmp_path: Path) -> None:
    options = ("--slot-save-path", str(tmp_path))
    prompt = "The river rose in the night and nobody in the village slept. " * 60
    body = {"prompt": prompt, "max_tokens": 16, "temperature": 0}
    server = start(*options, models=[str(GEMMA)])
    before = good(call(server, "/v1/completions", body))
    saved = good(call(server, "/v1/cache/save", {"prompt": prompt, "filename": "river"}))
    assert saved["saved_tokens"] > 512, "longer than the window"
    server.stop()
    server = start(*options, models=[str(GEMMA)])
    assert good(call(server, "/v1/cache/restore", {"filename": "river"}))["reusable_tokens"] == saved["saved_tokens"]
    after = good(call(server, "/v1/completions", body))
    assert after["usage"]["prompt_tokens_details"]["cached_tokens"] == saved["saved_tokens"]
    assert after["choices"][0]["text"] == before["choices"][0]["text"]


def test_files_are_a_keys_own(start, tmp_path: Path) -> None:
    environment = {"QUIRE_API_KEY": "first-secret-key,second-secret-key"}
    options = ("--cache-save-path", str(tmp_path))
    server = start(*options, environment=environment)
    first, second = "first-secret-key", "second-secret-key"
    chat(server, first)
    nothing = call(server, "/v1/cache/save", {"messages": MESSAGES, "filename": "a"}, second)
    assert nothing.status == 404 and "cached" in nothing.text, "another's pages are not there to be saved"
    good(call(server, "/v1/cache/save", {"messages": MESSAGES, "filename": "a"}, first))
    chat(server, first, cache_salt="pepper")
    good(call(server, "/v1/cache/save", {"messages": MESSAGES, "filename": "b", "cache_salt": "pepper"}, first))
    assert not any(name in path.name for path in tmp_path.iterdir() for name in (first, second, "pepper"))
    server.stop()

    server = start(*options, environment=environment)
    for key, body in [(second, {"filename": "a"}), (first, {"filename": "a", "cache_salt": "pepper"}), (first, {"filename": "b"})]:
        reply = call(server, "/v1/cache/restore", body, key)
        assert reply.status == 404, reply.text
        assert str(tmp_path) not in reply.text, "where files lie is not told"
    assert call(server, "/v1/cache/restore", {"filename": "a"}).status == 401
    restored = good(call(server, "/v1/cache/restore", {"filename": "a"}, first))
    assert chat(server, second)[1] == 0, "what one restored, another does not find"
    assert chat(server, first)[1] == restored["reusable_tokens"] > 0
    good(call(server, "/v1/cache/restore", {"filename": "b", "cache_salt": "pepper"}, first))
    assert chat(server, first, cache_salt="pepper")[1] == restored["reusable_tokens"]


@pytest.fixture(scope="module")
def saving(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    server = Server("--cache-save-path", str(folder))
    chat(server)
    good(call(server, "/v1/cache/save", {"messages": MESSAGES, "filename": "good"}))
    server.folder = folder
    yield server
    assert server.stop() == 0, server.log()


@pytest.mark.parametrize("path", ["/v1/cache/save", "/v1/cache/restore"])
@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "a/b", "/etc/passwd", "..%2fx", ".hidden", "a\\b", "a b", "a\0b", "ä", "x" * 129, "a\n", 5, None, ["a"], {}],
)
def test_no_name_leads_out_of_the_folder(saving: Server, path: str, name: object) -> None:
    before = sorted(saving.folder.parent.rglob("*"))
    body = {"filename": name, **({"messages": MESSAGES} if path.endswith("save") else {})}
    reply = call(saving, path, body)
    assert reply.status == 400 and reply.json()["error"]["param"] == "filename", reply.text
    assert sorted(saving.folder.parent.rglob("*")) == before


def test_bad_requests_are_refused(saving: Server) -> None:
    for body in [{}, {"prompt": 5}, {"prompt": ["a", "b"]}, {"messages": []}]:
        assert call(saving, "/v1/cache/save", {"filename": "x", **body}).status == 400
    assert call(saving, "/v1/cache/save", {"filename": "x", "prompt": "Never asked " * 40}).status == 404
    assert call(saving, "/v1/cache/save", {"filename": "x", "messages": MESSAGES, "cache_policy": "h2o:64"}).status == 400
    assert call(saving, "/v1/cache/restore", {"filename": "good", "prompt": "x"}).status == 400
    missing = call(saving, "/v1/cache/restore", {"filename": "missing"})
    assert missing.status == 404 and missing.json()["error"]["message"].startswith("missing:")


def test_without_a_folder_the_routes_say_what_to_do(server: Server) -> None:
    for path, body in [("/v1/cache/save", {"prompt": "x", "filename": "a"}), ("/v1/cache/restore", {"filename": "a"})]:
        reply = call(server, path, body)
        assert reply.status == 501 and "--cache-save-path" in reply.text


def test_a_damaged_file_is_never_used(saving: Server) -> None:
    (file,) = saving.folder.glob("*/good")
    whole = file.read_bytes()
    damaged = file.with_name("damaged")
    dice = random.Random(3)
    for i in range(40):
        data = bytearray(whole)
        at = dice.randrange(4096) if i % 2 else dice.randrange(len(data))
        data[at] ^= dice.randrange(1, 256)
        damaged.write_bytes(data if i % 5 else whole[: dice.randrange(len(whole))])
        reply = call(saving, "/v1/cache/restore", {"filename": "damaged", "cache_salt": ""})
        assert reply.status in (400, 422) and reply.json()["error"]["message"], reply.text
        assert str(saving.folder) not in reply.text
    damaged.unlink()
    os.symlink(file, damaged)
    assert call(saving, "/v1/cache/restore", {"filename": "damaged"}).status == 500, "links are not followed"
    assert good(call(saving, "/v1/cache/restore", {"filename": "good"}))["saved_tokens"] > 0


def test_another_cache_type_is_refused_with_the_reason(saving: Server, start) -> None:
    other = start("--cache-save-path", str(saving.folder), "--cache-type-k", "q8")
    reply = call(other, "/v1/cache/restore", {"filename": "good"})
    assert reply.status == 400 and "type of keys f16; here it is q8" in reply.text


def test_restoring_keeps_to_the_budget(saving: Server, start) -> None:
    small = start("--cache-save-path", str(saving.folder), "--cache-bytes", "24M")
    for i in range(3):
        prompt = f"{i}: " + f"What number {i} said to number {i + 1} on the way. " * 30
        good(call(small, "/v1/cache/pin", {"prompt": prompt, "cache_ttl": 600}))
    restored = good(call(small, "/v1/cache/restore", {"filename": "good"}))
    assert restored["restored_tokens"] + restored["cached_tokens"] <= restored["saved_tokens"]
    found = good(call(small, "/v1/cache/lookup", {"messages": MESSAGES}))
    assert found["cached_tokens"] == restored["reusable_tokens"]
    totals = small.call("GET", "/v1/cache").json()["models"][0]["bytes"]
    assert totals["used"] + totals["cached"] <= totals["budget"]
