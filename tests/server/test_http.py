"""What the server does with requests that no good client sends, and with clients that leave."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import socket
import time

import openai
import pytest

CHAT = {"model": "smol", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0}


def raw(server, data: bytes, timeout: float = 30) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=timeout) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR) if not data else None
        answer = b""
        while part := connection.recv(65536):
            answer += part
            head, _, body = answer.partition(b"\r\n\r\n")
            length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
            if length and len(body) >= int(length[0].split(b":")[1]):
                break
    return answer


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def post(server, path: str, body, headers: dict[str, str] | None = None) -> tuple[int, dict]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, data, headers or {})
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply.status, json.loads(content)


def get(server, path: str, headers: dict[str, str] | None = None, method: str = "GET") -> tuple[int, bytes, dict]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(method, path, headers=headers or {})
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply.status, content, dict(reply.getheaders())


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"NONSENSE\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"x%d: y\r\n" % i for i in range(120)) + b"\r\n", 431),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nx: " + b"y" * 20000 + b"\r\n\r\n", 431),
        (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400),
        (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: attacker.example\r\n\r\n", 403),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nOrigin: http://attacker.example\r\n\r\n", 403),
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"DELETE /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"GET /health HTTP/1.0\r\n\r\n", 200),
    ],
)
def test_http_that_is_not_as_it_should_be(server, data, status):
    assert status_of(raw(server, data)) == status
    assert get(server, "/health")[0] == 200, "and others are served"


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"text"', b'{"prompt": "\xff"}', b'{"a":' * 100, b"[" * 100_000, b'{"prompt": "x", "extra": {' + b",".join(b'"k%d":0' % i for i in range(400_000)) + b"}}", b'{"prompt": 1e999}', b'{"prompt": {}}', b'{"prompt": []}', b'{"prompt": [1, "a"]}', b'{"prompt": [99999999]}', b'{"prompt": "x", "max_tokens": 9999999999999999999999}', b'{"prompt": ""}'],
)
def test_bodies_that_are_no_request(server, body):
    status, answer = post(server, "/v1/completions", body)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error"), answer


def test_answers_carry_an_id(server):
    assert get(server, "/health", {"X-Request-Id": "abc-123"})[2]["X-Request-Id"] == "abc-123"
    assert get(server, "/health", {"X-Request-Id": "a b\tc"})[2]["X-Request-Id"].startswith("req_")


def test_one_connection_serves_many(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    for _ in range(20):
        connection.request("GET", "/health")
        assert connection.getresponse().read() == b'{"status":"ok"}'
    connection.close()


def test_every_route_needs_the_key(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# for tests\nfirst-secret-key\nsecond-secret-key\n")
    keys.chmod(0o600)
    server = start("--api-key-file", str(keys), environment={"QUIRE_ADMIN_KEY": "the-admin-key"})
    routes = ["GET /health", "GET /v1/models", "GET /props", "GET /slots", "GET /metrics", "GET /v1/cache", "DELETE /v1/cache", "POST /v1/cache/lookup", "POST /v1/cache/pin", "POST /v1/cache/unpin", "POST /v1/cache/save", "POST /v1/cache/restore", "GET /", "GET /ui/style.css", "GET /ui/chat.js", "GET /ui/cache.js", "GET /ui/chart.js", "POST /v1/completions", "POST /v1/chat/completions", "POST /v1/messages", "POST /v1/responses", "POST /v1/embeddings", "POST /tokenize", "POST /detokenize", "POST /apply-template", "GET /nothing", "POST /"]
    for route in routes:
        method, path = route.split()
        assert get(server, path, method=method)[0] == 401, route
        assert get(server, path, {"Authorization": "Bearer wrong-secret-key"}, method)[0] == 401, route
    bearer = {"Authorization": "Bearer first-secret-key"}
    assert get(server, "/health", bearer)[0] == 200
    assert get(server, "/health", {"x-api-key": "second-secret-key"})[0] == 200
    basic = base64.b64encode(b"anyone:first-secret-key").decode()
    assert get(server, "/health", {"Authorization": f"Basic {basic}"})[0] == 200
    assert get(server, "/v1/cache", bearer)[0] == 403, "the cache is the administrator's"
    assert get(server, "/slots", bearer)[0] == 403, "and what others ask"
    assert get(server, "/v1/cache", {"Authorization": "Bearer the-admin-key"})[0] == 200


def test_tenants_do_not_share(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("first-secret-key\nsecond-secret-key\n")
    keys.chmod(0o600)
    server = start("--api-key-file", str(keys))
    ask = [{"role": "user", "content": "A long enough question about the history of the printing press in Europe, please."}]

    def cached(key: str) -> int:
        answer = server.client(key).chat.completions.create(model="smol", messages=ask, max_tokens=2, temperature=0)
        return answer.usage.prompt_tokens_details.cached_tokens

    assert cached("first-secret-key") == 0
    assert cached("second-secret-key") == 0
    assert cached("first-secret-key") > 20


def test_secrets_stay_out_of_logs(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("canary-key-5131\n")
    keys.chmod(0o600)
    server = start("--api-key-file", str(keys))
    bearer = {"Authorization": "Bearer canary-key-5131"}
    status, _ = post(server, "/v1/chat/completions", {**CHAT, "messages": [{"role": "user", "content": "canary-prompt-5131"}]}, bearer)
    assert status == 200
    broken = post(server, "/v1/chat/completions", b'{"messages": "canary-prompt-5131', bearer)
    wrong = post(server, "/v1/chat/completions", {**CHAT, "temperature": "canary-prompt-5131"}, bearer)
    metrics = get(server, "/metrics", bearer)[1].decode()
    server.stop()
    for text in (server.log(), metrics, json.dumps(broken), json.dumps(wrong)):
        assert "canary" not in text
    assert "POST /v1/chat/completions 200" in server.log()


def test_a_key_file_that_others_can_read_is_refused(tmp_path):
    import conftest

    keys = tmp_path / "keys"
    keys.write_text("first-secret-key\n")
    keys.chmod(0o644)
    with pytest.raises(RuntimeError, match="chmod 600"):
        conftest.Server("--api-key-file", str(keys))


def test_a_public_address_needs_a_key():
    import conftest

    with pytest.raises(RuntimeError, match="--api-key-file"):
        conftest.Server("--host", "0.0.0.0")


def running(server) -> int:
    for line in get(server, "/metrics")[1].decode().splitlines():
        if line.startswith("quire_num_requests_running{"):
            return int(float(line.split()[-1]))
    raise AssertionError("no gauge")


def wait_for_running(server, count: int) -> None:
    for _ in range(100):
        if running(server) == count:
            return
        time.sleep(0.1)
    raise AssertionError(f"{running(server)} requests run; expected {count}")


def test_a_client_that_leaves_is_cancelled(server):
    body = json.dumps({"model": "smol", "prompt": "Once", "max_tokens": 4000, "ignore_eos": True, "stream": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    connections = []
    for _ in range(5):
        connection = socket.create_connection(("127.0.0.1", server.port))
        connection.sendall(head + body)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        connections.append(connection)
    wait_for_running(server, 5)
    for connection in connections:
        connection.close()
    wait_for_running(server, 0)


def test_sigterm_finishes_what_is_under_way(start):
    server = start()
    stream = server.client().completions.create(model="smol", prompt="Once upon a time", max_tokens=60, stream=True, temperature=0, extra_body={"ignore_eos": True})
    pieces = [next(iter(stream)).choices[0].text]
    os.kill(server.process.pid, signal.SIGTERM)
    time.sleep(0.05)
    with pytest.raises((openai.APIConnectionError, openai.InternalServerError)):
        server.client().models.list()
    finish = None
    for chunk in stream:
        for choice in chunk.choices:
            pieces.append(choice.text)
            finish = choice.finish_reason or finish
    assert finish == "length"
    assert server.process.wait(timeout=30) == 0


def test_a_full_line_says_when_to_come_back(start):
    server = start("--parallel", "1", "--max-queue", "1")
    busy = []
    for _ in range(2):
        body = json.dumps({"model": "smol", "prompt": "Once", "max_tokens": 4000, "ignore_eos": True, "stream": True}).encode()
        connection = socket.create_connection(("127.0.0.1", server.port))
        connection.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        connection.recv(100)
        busy.append(connection)
        time.sleep(0.3)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("POST", "/v1/completions", json.dumps({"model": "smol", "prompt": "x"}))
    reply = connection.getresponse()
    assert reply.status in (429, 503)
    assert int(reply.getheader("Retry-After")) >= 1
    for one in busy:
        one.close()
