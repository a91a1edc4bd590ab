"""The cache made visible: totals, pages, sequences, the tree of prefixes, lookups."""

from __future__ import annotations

import pytest
from conftest import Server

SYSTEM = "You are a careful librarian who answers in one short sentence. " * 12


@pytest.fixture(scope="module")
def fresh() -> Server:
    server = Server()
    yield server
    server.stop()


def ask(server: Server, question: str, **more: object) -> dict:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    body = {"messages": messages, "max_tokens": 8, "temperature": 0, **more}
    reply = server.call("POST", "/v1/chat/completions", body)
    assert reply.status == 200, reply.text
    return reply.json()


def look(server: Server, question: str, **more: object) -> dict:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    reply = server.call("POST", "/v1/cache/lookup", {"messages": messages, **more})
    assert reply.status == 200, reply.text
    return reply.json()


def details(server: Server) -> dict:
    return server.call("GET", "/v1/cache?detail=pages").json()["models"][0]


def test_a_lookup_tells_what_a_request_then_finds(fresh: Server) -> None:
    assert look(fresh, "Where are the maps?")["cached_tokens"] == 0
    assert look(fresh, "Where are the maps?")["miss"]["reason"] == "differs"
    ask(fresh, "Where are the maps?")
    again = look(fresh, "Where are the maps?")
    assert again["cached_tokens"] == again["prompt_tokens"] - 1
    assert again["miss"]["reason"] == "none"
    other = look(fresh, "Who wrote this book?")
    assert 0 < other["cached_tokens"] < other["prompt_tokens"] - 1
    used = ask(fresh, "Who wrote this book?")["usage"]
    assert used["prompt_tokens_details"]["cached_tokens"] == other["cached_tokens"]
    assert used["prompt_tokens"] == other["prompt_tokens"]
    apart = look(fresh, "Who wrote this book?", cache_salt="somebody else")
    assert apart["cached_tokens"] == 0


def test_a_prompt_can_be_a_text_or_tokens(fresh: Server) -> None:
    text = fresh.call("POST", "/v1/cache/lookup", {"prompt": "Once upon a time"}).json()
    tokens = fresh.call("POST", "/tokenize", {"content": "Once upon a time"}).json()["tokens"]
    assert text["prompt_tokens"] == len(tokens)
    assert fresh.call("POST", "/v1/cache/lookup", {"prompt": tokens}).json() == text


@pytest.mark.parametrize("body", ["", "{}", '{"prompt": 5}', '{"prompt": ["a", "b"]}', '{"prompt": ""}', '{"messages": []}'])
def test_a_bad_lookup_is_refused(fresh: Server, body: str) -> None:
    reply = fresh.call("POST", "/v1/cache/lookup", body)
    assert reply.status == 400, reply.text
    assert reply.json()["error"]["message"]


def test_every_page_is_shown(fresh: Server) -> None:
    ask(fresh, "Where are the maps?")
    ask(fresh, "Who wrote this book?")
    cache = details(fresh)
    counted: dict[str, int] = {}
    for page in cache["page_list"]:
        counted[page["state"]] = counted.get(page["state"], 0) + 1
    assert {state: n for state, n in cache["pages"].items() if n} == counted
    assert counted.keys() & {"cached", "sealed", "shared"}
    held = [page for page in cache["page_list"] if page.get("sequences")]
    assert {s for page in held for s in page["sequences"]} <= {s["id"] for s in cache["sequences"]}
    total = sum(page["bytes"] for page in cache["page_list"] if page["state"] != "free")
    assert total == cache["bytes"]["used"] + cache["bytes"]["cached"]
    assert cache["tier"] == "memory"


def test_prefixes_form_a_tree(fresh: Server) -> None:
    ask(fresh, "Where are the maps?")
    ask(fresh, "Who wrote this book, and when was it first lent to somebody in the village by the river?")
    tree = {node["id"]: node for node in details(fresh)["tree"]}
    roots = [node for node in tree.values() if node["parent"] is None]
    assert roots
    assert all(node["parent"] in tree for node in tree.values() if node["parent"] is not None)
    shared = max(roots, key=lambda node: node["tokens"])
    assert shared["tokens"] >= 96 and shared["tokens"] % 32 == 0
    assert shared["uses"] >= 2
    assert all(node["tenant"] == shared["tenant"] for node in tree.values())


def test_forgetting_empties_the_tree(fresh: Server) -> None:
    ask(fresh, "Where are the maps?")
    assert details(fresh)["tree"]
    assert fresh.call("DELETE", "/v1/cache").status == 200
    cache = details(fresh)
    assert cache["tree"] == [] and cache["bytes"]["cached"] == 0
    again = look(fresh, "Where are the maps?")
    assert again["cached_tokens"] == 0 and again["miss"]["reason"] == "evicted"


def test_pins_stay_when_others_leave(start) -> None:
    server = start("--cache-bytes", "24M")
    pinned = {"messages": [{"role": "system", "content": SYSTEM}]}

    def crowd_out() -> None:
        for i in range(4):
            prompt = f"{i}: " + f"What number {i} said to number {i + 1} on the way. " * 60
            reply = server.call("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 1})
            assert reply.status == 200, reply.text

    ask(server, "Where are the maps?")
    crowd_out()
    assert look(server, "Where are the maps?")["cached_tokens"] == 0, "what is not pinned leaves"
    first = server.call("POST", "/v1/cache/pin", {**pinned, "cache_ttl": 600}).json()
    assert first["prompt_tokens"] > 100 and first["cached_tokens"] == 0 and first["expires_in"] == 600
    crowd_out()
    kept = look(server, "Where are the maps?")
    assert kept["cached_tokens"] > 100
    again = server.call("POST", "/v1/cache/pin", pinned).json()
    assert again["cached_tokens"] == first["prompt_tokens"] - 1 and again["expires_in"] == 300
    apart = server.call("POST", "/v1/cache/unpin", {**pinned, "cache_salt": "somebody else"}).json()
    assert apart["unpinned"] == 0
    assert server.call("POST", "/v1/cache/unpin", pinned).json()["unpinned"] == 2
    assert server.call("POST", "/v1/cache/unpin", pinned).json()["unpinned"] == 0


@pytest.mark.parametrize("path", ["/v1/cache/pin", "/v1/cache/unpin"])
@pytest.mark.parametrize("body", [{}, {"prompt": 5}, {"prompt": "x", "cache_ttl": -1}, {"messages": []}, {"prompt": ["a", "b"]}])
def test_a_bad_pin_is_refused(fresh: Server, path: str, body: dict) -> None:
    reply = fresh.call("POST", path, body)
    assert reply.status == 400 and reply.json()["error"]["param"], reply.text


def test_the_page_needs_nothing_from_elsewhere(fresh: Server) -> None:
    page = fresh.call("GET", "/")
    assert page.status == 200 and page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert "http://" not in page.text and "https://" not in page.text
    for path in ("/ui/icon.svg", "/ui/style.css", "/ui/chat.js", "/ui/cache.js", "/ui/chart.js"):
        assert path in page.text
        assert fresh.call("GET", path).status == 200
