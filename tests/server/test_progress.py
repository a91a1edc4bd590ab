"""What llama.cpp's clients watch: how far a prompt is, and the slots."""

from __future__ import annotations

import json
import time

from conftest import Server

LONG = "The quick brown fox jumps over the lazy dog and runs on into the deep green wood. " * 60


def events(server: Server, path: str, body: dict) -> list[dict]:
    reply = server.call("POST", path, {"model": "smol", "max_tokens": 3, "temperature": 0, "stream": True, **body})
    assert reply.status == 200, reply.text
    return [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]


def check(chunks: list[dict], text) -> dict:
    told = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]
    assert len(told) > 1, "a long prompt is computed in pieces"
    done = [one["processed"] for one in told]
    assert done == sorted(set(done)) and done[-1] == told[-1]["total"]
    assert all(one["cache"] == told[0]["cache"] < done[0] for one in told)
    assert all(a["time_ms"] <= b["time_ms"] for a, b in zip(told, told[1:]))
    first_text = next(i for i, chunk in enumerate(chunks) if any(text(choice) for choice in chunk["choices"]))
    assert all("prompt_progress" not in chunk for chunk in chunks[first_text:])
    assert all(len(chunk["choices"]) == 1 for chunk in chunks[:first_text])
    return told[-1]


def test_a_prompt_tells_how_far_it_is(server: Server) -> None:
    asked = {"messages": [{"role": "user", "content": LONG + "How many foxes?"}], "return_progress": True}
    chunks = events(server, "/v1/chat/completions", asked)
    last = check(chunks, lambda choice: choice["delta"].get("content"))
    assert last["cache"] == chunks[-1]["timings"]["cache_n"]
    again = [chunk["prompt_progress"] for chunk in events(server, "/v1/chat/completions", asked) if "prompt_progress" in chunk]
    assert [(one["cache"], one["processed"]) for one in again] == [(last["total"] - 1, last["total"])]
    check(events(server, "/v1/completions", {"prompt": "Completed: " + LONG, "return_progress": True}), lambda choice: choice["text"])


def test_nobody_is_told_who_did_not_ask(server: Server) -> None:
    assert "prompt_progress" not in json.dumps(events(server, "/v1/completions", {"prompt": "Once upon " + LONG}))
    reply = server.call("POST", "/v1/completions", {"prompt": "Once", "max_tokens": 2, "return_progress": True})
    assert reply.status == 200 and "prompt_progress" not in reply.text
    bad = server.call("POST", "/v1/completions", {"prompt": "Once", "return_progress": "yes"})
    assert bad.status == 400 and bad.json()["error"]["param"] == "return_progress"


def test_slots(start) -> None:
    server = start("--parallel", "2")
    idle = server.call("GET", "/slots").json()
    assert [slot["id"] for slot in idle] == [0, 1] and not any(slot["is_processing"] for slot in idle)
    assert server.call("GET", "/props").json()["total_slots"] == 2
    client = server.client()
    stream = client.completions.create(model="smol", prompt=["Once upon a time", "Far away"], max_tokens=2000, stream=True, temperature=0, extra_body={"ignore_eos": True})
    next(iter(stream))
    for _ in range(100):
        busy = [slot for slot in server.call("GET", "/slots").json() if slot["is_processing"]]
        if len(busy) == 2 and all(slot["next_token"]["n_decoded"] > 0 for slot in busy):
            break
        time.sleep(0.1)
    assert len(busy) == 2
    for slot in busy:
        assert slot["n_prompt_tokens_processed"] == slot["n_prompt_tokens"] > 0
        assert slot["next_token"]["n_decoded"] + slot["next_token"]["n_remain"] == 2000
    full = server.call("GET", "/slots?fail_on_no_slot=1")
    assert full.status == 503 and int(full.headers["retry-after"]) >= 1
    stream.close()
