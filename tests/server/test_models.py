"""Several models in one server: loaded when asked for, unloaded when others need the room."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest
from conftest import GEMMA, MODEL, QUIRE, Server

SMOL_NAME, GEMMA_NAME = Path(MODEL).stem, Path(GEMMA).stem
ONE_FITS = ("--model-bytes", "420M", "--cache-bytes", "96M")  # of weights they have 98 and 242 MB


def complete(server: Server, model: str | None, **more: object):
    body = {"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0, **({"model": model} if model else {}), **more}
    return server.call("POST", "/v1/completions", body)


def stream(server: Server, model: str, tokens: int):
    return server.client().completions.create(model=model, prompt="Once upon a time", max_tokens=tokens, stream=True, temperature=0, extra_body={"ignore_eos": True})


def loaded(server: Server) -> list[str]:
    return [model["id"] for model in server.call("GET", "/v1/models").json()["data"] if model["loaded"]]


def metric(server: Server, name: str, model: str) -> float:
    found = re.search(rf'^quire_{name}{{model_name="{re.escape(model)}"}} (\S+)$', server.call("GET", "/metrics").text, re.M)
    assert found, name
    return float(found.group(1))


def resident(server: Server) -> dict[str, int]:
    """Bytes of the process in memory, by kind."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return {kind: int(re.search(rf"{kind}:\s+(\d+) kB", status).group(1)) << 10 for kind in ("RssAnon", "RssFile")}


@pytest.fixture(scope="module")
def both():
    server = Server(models=[MODEL, GEMMA])
    yield server
    assert server.stop() == 0, server.log()


def test_models_come_when_they_are_asked_for(both: Server) -> None:
    listed = both.call("GET", "/v1/models").json()["data"]
    assert [(model["id"], model["loaded"]) for model in listed] == [(SMOL_NAME, False), (GEMMA_NAME, False)]
    assert [model["meta"]["architecture"] for model in listed] == ["llama", "gemma3"]
    assert complete(both, None).json()["model"] == SMOL_NAME, "the first is the default"
    assert loaded(both) == [SMOL_NAME]
    answer = complete(both, GEMMA_NAME).json()
    assert answer["model"] == GEMMA_NAME and answer["choices"][0]["text"]
    assert loaded(both) == [SMOL_NAME, GEMMA_NAME]
    unknown = complete(both, "gpt-5")
    assert unknown.status == 404 and SMOL_NAME in unknown.text and GEMMA_NAME in unknown.text


def test_every_route_knows_which_model(both: Server) -> None:
    complete(both, SMOL_NAME), complete(both, GEMMA_NAME)
    assert both.call("GET", "/props").json()["model_alias"] == SMOL_NAME
    gemma = both.call("GET", f"/props?model={GEMMA_NAME}").json()
    assert gemma["model_alias"] == GEMMA_NAME and gemma["n_ctx"] != both.call("GET", "/props").json()["n_ctx"]
    for path in ("/props?model=gpt-5", "/slots?model=gpt-5", "/v1/cache?model=gpt-5"):
        assert both.call("GET", path).status == 404, path
    words = {name: both.call("POST", "/tokenize", {"model": name, "content": "Once upon a time"}).json()["tokens"] for name in (SMOL_NAME, GEMMA_NAME)}
    assert words[SMOL_NAME] != words[GEMMA_NAME]
    going = stream(both, GEMMA_NAME, 2000)
    next(iter(going))

    def busy(query: str) -> int:
        return sum(slot["is_processing"] for slot in both.call("GET", f"/slots{query}").json())

    assert (busy(""), busy(f"?model={SMOL_NAME}"), busy(f"?model={GEMMA_NAME}")) == (0, 0, 1)
    assert metric(both, "num_requests_running", GEMMA_NAME) == 1 and metric(both, "num_requests_running", SMOL_NAME) == 0
    going.close()
    assert metric(both, "request_success_total", SMOL_NAME) > 0
    assert metric(both, "time_to_first_token_seconds_count", GEMMA_NAME) > 0


def test_caches_are_apart(both: Server) -> None:
    prompt = "A prompt of more than a page of tokens, so that it can be found again. " * 6
    pinned = both.call("POST", "/v1/cache/pin", {"model": GEMMA_NAME, "prompt": prompt}).json()
    assert pinned["model"] == GEMMA_NAME

    def warm(model: str) -> int:
        return both.call("POST", "/v1/cache/lookup", {"model": model, "prompt": prompt}).json()["cached_tokens"]

    complete(both, SMOL_NAME)
    assert warm(GEMMA_NAME) > 64 and warm(SMOL_NAME) < 8
    shown = both.call("GET", "/v1/cache?detail=pages").json()["models"]
    assert [(one["model"], one["loaded"]) for one in shown] == [(SMOL_NAME, True), (GEMMA_NAME, True)]
    assert shown[1]["page_list"] and shown[1]["tree"]
    assert [one["model"] for one in both.call("GET", f"/v1/cache?model={GEMMA_NAME}").json()["models"]] == [GEMMA_NAME]
    assert [one["model"] for one in both.call("DELETE", f"/v1/cache?model={SMOL_NAME}").json()["models"]] == [SMOL_NAME]
    assert warm(GEMMA_NAME) > 64
    assert both.call("POST", "/v1/cache/unpin", {"model": GEMMA_NAME, "prompt": prompt}).json()["unpinned"] == 1
    assert len(both.call("DELETE", "/v1/cache").json()["models"]) == 2
    assert warm(GEMMA_NAME) == 0


def test_looking_loads_nothing(start) -> None:
    server = start(models=[MODEL, GEMMA])
    asked = {"model": GEMMA_NAME, "prompt": "Once upon a time"}
    found = server.call("POST", "/v1/cache/lookup", asked).json()
    assert (found["cached_tokens"], found["miss"]["reason"]) == (0, "not_loaded")
    assert server.call("POST", "/v1/cache/unpin", asked).json()["unpinned"] == 0
    assert server.call("POST", "/v1/cache/lookup", {"model": GEMMA_NAME}).status == 400
    idle = server.call("GET", f"/slots?model={GEMMA_NAME}&fail_on_no_slot=1")
    assert idle.status == 200 and len(idle.json()) == server.call("GET", "/props").json()["total_slots"]
    shown = server.call("GET", "/v1/cache?detail=pages").json()["models"]
    assert [(one["loaded"], one["page_list"], one["tree"], one["bytes"]["used"]) for one in shown] == [(False, [], [], 0)] * 2
    server.call("DELETE", "/v1/cache")
    assert loaded(server) == [] and metric(server, "model_loaded", GEMMA_NAME) == 0


def test_many_who_ask_at_once_get_one(start) -> None:
    server = start("--http-threads", "3", models=[MODEL, GEMMA])
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda i: complete(server, [SMOL_NAME, GEMMA_NAME][i % 2]), range(12)))
    assert [answer.status for answer in answers] == [200] * 12
    assert {answer.json()["choices"][0]["text"] for answer in answers[::2]} == {answers[0].json()["choices"][0]["text"]}
    for name in (SMOL_NAME, GEMMA_NAME):
        assert metric(server, "model_loads_total", name) == 1
        assert server.log().count(f"quire: loaded {name} in") == 1


def test_the_other_leaves_and_its_memory_with_it(start) -> None:
    server = start(*ONE_FITS, models=[MODEL, GEMMA])
    held: dict[str, list[dict[str, int]]] = {SMOL_NAME: [], GEMMA_NAME: []}
    for _ in range(3):
        for name in (GEMMA_NAME, SMOL_NAME):
            assert complete(server, name).status == 200, "nobody uses the other"
            assert loaded(server) == [name]
            held[name].append(resident(server))
    assert server.log().count("quire: unloaded") == 5
    smol, gemma = held[SMOL_NAME], held[GEMMA_NAME]
    for kind, gone in (("RssAnon", 150 << 20), ("RssFile", 100 << 20)):
        assert gemma[0][kind] - smol[0][kind] > gone, held
        assert gemma[2][kind] - gemma[0][kind] < 32 << 20, held
        assert smol[2][kind] - smol[0][kind] < 32 << 20, held
    assert metric(server, "model_loads_total", SMOL_NAME) == 3
    assert metric(server, "prompt_tokens_total", GEMMA_NAME) > metric(server, "prompt_tokens_total", SMOL_NAME) > 0, "totals stay"


def test_a_model_in_use_stays(start) -> None:
    server = start(*ONE_FITS, models=[MODEL, GEMMA])
    going = stream(server, SMOL_NAME, 1500)
    next(iter(going))
    refused = complete(server, GEMMA_NAME)
    assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1
    assert "--model-bytes" in refused.json()["error"]["message"] and refused.json()["error"]["code"] == "model_not_loaded"
    anthropic = server.call("POST", "/v1/messages", {"model": GEMMA_NAME, "max_tokens": 3, "messages": [{"role": "user", "content": "Hello"}]})
    assert anthropic.status == 503 and anthropic.json()["type"] == "error"
    assert loaded(server) == [SMOL_NAME]
    for _ in range(20):
        next(iter(going))
    going.close()
    for _ in range(50):
        if complete(server, GEMMA_NAME).status == 200:
            break
    assert loaded(server) == [GEMMA_NAME]


def test_one_streams_while_the_other_loads(start) -> None:
    server = start("--http-threads", "1", models=[MODEL, GEMMA])
    going = stream(server, SMOL_NAME, 4000)
    chunks = iter(going)
    next(chunks)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(complete, server, GEMMA_NAME)
        came = 0
        while f"loaded {GEMMA_NAME}" not in server.log() and not answer.done():
            next(chunks)
            came += 1
            if came == 1:
                assert server.call("GET", "/health").status == 200
                assert GEMMA_NAME not in loaded(server), "it was answered meanwhile"
        assert answer.result().status == 200
    going.close()
    assert came >= 3, "loading computes too, so they are slower"


def test_a_client_that_leaves_while_its_model_loads(start) -> None:
    server = start(*ONE_FITS, models=[MODEL, GEMMA])
    body = json.dumps({"model": GEMMA_NAME, "prompt": "Once", "max_tokens": 4000, "ignore_eos": True, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(0.1)
    for _ in range(300):
        if loaded(server) == [GEMMA_NAME]:
            break
        time.sleep(0.1)
    assert complete(server, SMOL_NAME).status == 200, "nobody holds the other"
    assert loaded(server) == [SMOL_NAME]
    assert metric(server, "prompt_tokens_total", GEMMA_NAME) == 0
    assert "quire_client_disconnects_total 1" in server.call("GET", "/metrics").text


def test_sigterm_finishes_what_all_do(start) -> None:
    server = start(models=[MODEL, GEMMA])
    complete(server, SMOL_NAME), complete(server, GEMMA_NAME)
    streams = [iter(stream(server, name, 60)) for name in (SMOL_NAME, GEMMA_NAME)]
    for going in streams:
        next(going)
    os.kill(server.process.pid, signal.SIGTERM)
    for going in streams:
        ends = [choice.finish_reason for chunk in going for choice in chunk.choices]
        assert ends[-1] == "length"
    assert server.process.wait(timeout=60) == 0


def test_sigterm_waits_for_one_that_loads(start) -> None:
    server = start(models=[MODEL, GEMMA])
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(complete, server, GEMMA_NAME)
        time.sleep(0.2)
        os.kill(server.process.pid, signal.SIGTERM)
        assert answer.result().status == 200
    assert server.process.wait(timeout=60) == 0


def test_a_second_signal_ends_those_who_wait_for_one(start) -> None:
    server = start(models=[MODEL, GEMMA])
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(complete, server, GEMMA_NAME, max_tokens=4000, ignore_eos=True) for _ in range(4)]
        time.sleep(0.2)
        for _ in range(2):
            os.kill(server.process.pid, signal.SIGTERM)
            time.sleep(0.1)
        assert server.process.wait(timeout=60) == 0
        assert all(isinstance(answer.exception(), (http.client.HTTPException, ConnectionError)) for answer in answers)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.gguf").symlink_to(MODEL)
    (tmp_path / "a.gguf").symlink_to(GEMMA)
    (tmp_path / "notes.txt").write_text("no model")
    return tmp_path


def test_a_folder(start, folder: Path) -> None:
    (folder / "broken.gguf").write_bytes(Path(MODEL).read_bytes()[:100_000])
    server = start(models=[str(folder)])
    assert [model["id"] for model in server.call("GET", "/v1/models").json()["data"]] == ["a", "b"]
    assert re.search(r"left out: .*broken\.gguf", server.log())
    (folder / "a.gguf").unlink()
    vanished = complete(server, "a")
    assert vanished.status == 500 and "cannot be loaded" in vanished.json()["error"]["message"]
    assert complete(server, "b").status == 200
    (folder / "a.gguf").symlink_to(GEMMA)
    assert complete(server, "a").status == 200
    client = server.client()
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="broken", prompt="x")


def test_a_folder_behind_a_default(start, folder: Path) -> None:
    server = start(models=[str(folder / "b.gguf"), str(folder)])
    assert [model["id"] for model in server.call("GET", "/v1/models").json()["data"]] == ["b", "a"]


def refusal(*words: str) -> str:
    said = subprocess.run([QUIRE, "serve", "--port", "0", *words], capture_output=True, text=True, timeout=60)
    assert said.returncode != 0
    return said.stderr


def test_what_cannot_be_served_is_said_at_the_start(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    empty = tmp_path / "empty"
    empty.mkdir()
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.gguf").symlink_to(GEMMA)
    assert "broken.gguf" in refusal("-m", MODEL, "-m", str(broken))
    assert "broken.gguf" in refusal("-m", str(broken))
    assert "nothing.gguf" in refusal("-m", MODEL, "-m", str(tmp_path / "nothing.gguf"))
    assert "no *.gguf" in refusal("-m", str(empty))
    assert "called 'b'" in refusal("-m", str(folder / "b.gguf"), "-m", str(other / "b.gguf"))
    assert "--alias" in refusal("-m", MODEL, "-m", GEMMA, "--alias", "x")
    assert "--model-bytes" in refusal("-m", MODEL, "-m", GEMMA, "--model-bytes", "150M")
    assert "--cache-bytes" in refusal("-m", MODEL, "-m", GEMMA, "--model-bytes", "300M", "--cache-bytes", "200M")
    assert "q17" in refusal("-m", MODEL, "-m", GEMMA, "--cache-type-k", "q17")
