"""TLS by flags: the same server, and clear words about files that do not fit."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import openai
import pytest
from conftest import MODEL, QUIRE, Server


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def make_certificate(folder: Path, name: str, kind: tuple[str, ...] = ("rsa:2048",)) -> tuple[Path, Path]:
    cert, key = folder / f"{name}.crt", folder / f"{name}.key"
    openssl("req", "-x509", "-newkey", *kind, "-nodes", "-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    key.chmod(0o600)
    return cert, key


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"), "server")


def options(files: tuple[Path, Path]) -> tuple[str, ...]:
    return ("--tls-cert", str(files[0]), "--tls-key", str(files[1]))


@pytest.fixture(scope="module")
def secure(files) -> Server:
    server = Server(*options(files), trusted=files[0])
    yield server
    assert server.stop() == 0, server.log()


def connect(server: Server, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    return (context or server.tls).wrap_socket(plain, server_hostname="localhost")


def read_all(connection: socket.socket) -> bytes:
    answer = b""
    while part := connection.recv(65536):
        answer += part
    return answer


def test_openai_s_client(secure: Server) -> None:
    assert secure.url.startswith("https://")
    client = secure.client()
    asked = {"model": "smol", "messages": [{"role": "user", "content": "Tell me the capital of France."}], "max_tokens": 24, "temperature": 0}
    whole = client.chat.completions.create(**asked).choices[0].message.content
    assert "Paris" in whole
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(**asked, stream=True) if chunk.choices)
    assert streamed == whole
    with pytest.raises(openai.APIConnectionError):
        openai.OpenAI(base_url=f"{secure.url}/v1", api_key="none", max_retries=0).models.list()  # knows no such certificate


def test_bodies_larger_than_a_record(secure: Server) -> None:
    text = "word " * 200_000
    tokens = secure.call("POST", "/tokenize", {"content": text}).json()["tokens"]
    assert len(tokens) >= 200_000
    assert secure.call("POST", "/detokenize", {"tokens": tokens}).json()["content"] == text


@pytest.mark.parametrize(("request_", "status"), [(b"NONSENSE\r\n\r\n", 400), (b"GET /health HTTP/1.1\r\nx: " + b"y" * 20000 + b"\r\n\r\n", 431), (b"POST /tokenize HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413)])
def test_limits_are_the_same(secure: Server, request_: bytes, status: int) -> None:
    with connect(secure) as connection:
        connection.sendall(request_)
        assert read_all(connection).startswith(b"HTTP/1.1 %d " % status)


def test_one_connection_serves_many(secure: Server) -> None:
    connection = secure.connection()
    for _ in range(20):
        connection.request("GET", "/health")
        assert connection.getresponse().read() == b'{"status":"ok"}'
    connection.request("POST", "/v1/completions", '{"prompt": "Once", "max_tokens": 2}')
    assert connection.getresponse().read()
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200
    connection.close()


def test_the_next_request_may_come_early(secure: Server) -> None:
    body = b'{"prompt": "Once", "max_tokens": 20, "ignore_eos": true}'
    first = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    last = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connect(secure) as connection:
        connection.sendall(first)
        time.sleep(0.05)
        connection.sendall(last)
        answer = read_all(connection)  # its end is announced, or this raises
    assert answer.count(b"HTTP/1.1 200") == 2 and answer.endswith(b'{"status":"ok"}')


def test_a_client_that_leaves_is_cancelled(secure: Server) -> None:
    for politely in (True, False):
        stream = secure.client().completions.create(model="smol", prompt="Once", max_tokens=4000, stream=True, extra_body={"ignore_eos": True})
        next(iter(stream))
        assert secure.call("GET", "/v1/cache").json()["models"][0]["running"] == 1
        if politely:
            stream.close()
        else:
            stream.response.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        for _ in range(100):
            if secure.call("GET", "/v1/cache").json()["models"][0]["running"] == 0:
                break
            time.sleep(0.1)
        else:
            raise AssertionError("it still runs")


def test_versions(secure: Server, files) -> None:
    def context(version: ssl.TLSVersion) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=str(files[0]))
        made.set_ciphers("ALL:@SECLEVEL=0")
        made.minimum_version = made.maximum_version = version
        return made

    for version, name in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
        with connect(secure, context(version)) as connection:
            assert connection.version() == name
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(secure, context(ssl.TLSVersion.TLSv1_1))


def test_plain_http_is_told(secure: Server) -> None:
    for request in (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"):
        with socket.create_connection(("127.0.0.1", secure.port), timeout=5) as connection:
            connection.sendall(request)
            answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 400 ") and b"https://" in answer


@pytest.mark.parametrize("data", [b"NONSENSE\r\n\r\n", b"\x00" * 64, b"\x16\x03\x01\xff\xff" + b"\x01" * 200, os.urandom(500)])
def test_nonsense_ends_at_once(secure: Server, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", secure.port), timeout=15) as connection:
        connection.sendall(data)
        try:
            answer = read_all(connection)
        except ConnectionError:
            answer = b""
        assert b"HTTP" not in answer
    assert secure.call("GET", "/health").status == 200


def test_hands_must_be_shaken_in_time(secure: Server) -> None:
    silent = [socket.create_connection(("127.0.0.1", secure.port), timeout=20) for _ in range(3)]
    silent[1].sendall(b"\x16")
    silent[2].sendall(b"\x16\x03\x01\x02\x00\x01")
    began = time.monotonic()
    assert secure.call("GET", "/health").status == 200
    for connection in silent:
        assert connection.recv(1) == b""
        connection.close()
    assert 8 < time.monotonic() - began < 15


def test_many_at_once(secure: Server) -> None:
    good: list[int] = []

    def ask() -> None:
        for _ in range(5):
            good.append(secure.call("POST", "/tokenize", {"content": "Hello"}).status)

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert good == [200] * 60


def test_keys_and_sigterm(start, files, tmp_path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("first-secret-key\n")
    keys.chmod(0o600)
    server = start(*options(files), "--api-key-file", str(keys), trusted=files[0])
    assert server.call("GET", "/health").status == 401
    stream = server.client("first-secret-key").completions.create(model="smol", prompt="Once", max_tokens=60, stream=True, extra_body={"ignore_eos": True})
    next(iter(stream))
    os.kill(server.process.pid, signal.SIGTERM)
    assert [choice.finish_reason for chunk in stream for choice in chunk.choices][-1] == "length"
    assert server.process.wait(timeout=30) == 0


def test_other_kinds_of_keys(start, tmp_path) -> None:
    files = make_certificate(tmp_path, "curve", ("ec", "-pkeyopt", "ec_paramgen_curve:P-256"))
    assert start(*options(files), trusted=files[0]).call("GET", "/health").status == 200


def test_a_key_that_others_can_read_is_warned_of(start, files, tmp_path) -> None:
    key = tmp_path / "open.key"
    key.write_bytes(files[1].read_bytes())
    key.chmod(0o644)
    assert "chmod 600" in start(*options((files[0], key)), trusted=files[0]).log()
    assert "chmod" not in start(*options(files), trusted=files[0]).log()


def refusal(*words: str) -> str:
    said = subprocess.run([QUIRE, "serve", "-m", MODEL, "--port", "0", *words], capture_output=True, text=True, timeout=60)
    assert said.returncode == 2 and len(said.stderr.splitlines()) == 1, said.stderr
    return said.stderr


def test_files_that_do_not_fit(files, tmp_path) -> None:
    cert, key = map(str, files)
    other_cert, other_key = map(str, make_certificate(tmp_path, "other"))
    _, curve_key = map(str, make_certificate(tmp_path, "curve", ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")))
    locked = tmp_path / "locked.key"
    openssl("rsa", "-aes256", "-passout", "pass:secret", "-in", key, "-out", str(locked))
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("no certificate")
    half = tmp_path / "half.pem"
    half.write_text(Path(cert).read_text()[:400])
    missing = str(tmp_path / "missing.pem")
    assert "--tls-key FILE is missing" in refusal("--tls-cert", cert)
    assert "--tls-cert FILE is missing" in refusal("--tls-key", key)
    for bad in (missing, str(tmp_path), str(nonsense), str(half), key):
        assert f"--tls-cert {bad}:" in refusal("--tls-cert", bad, "--tls-key", key)
    for bad in (missing, str(tmp_path), str(nonsense), cert):
        assert f"--tls-key {bad}:" in refusal("--tls-cert", cert, "--tls-key", bad)
    for bad in (other_key, curve_key):
        assert f"--tls-key {bad} does not belong to --tls-cert {cert}" in refusal("--tls-cert", cert, "--tls-key", bad)
    assert "does not belong" in refusal("--tls-cert", other_cert, "--tls-key", key)
    assert "passphrase" in refusal("--tls-cert", cert, "--tls-key", str(locked))
