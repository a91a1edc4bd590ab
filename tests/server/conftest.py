"""A real server with the real model, for every test of a session; more of them where a test needs its own."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import openai
import pytest

ROOT = Path(__file__).resolve().parents[2]
QUIRE = os.environ.get("QUIRE_BIN", str(ROOT / "build/quire"))
GEMMA = str(ROOT / "models/gemma-3-270m-q4_k_m.gguf")
MODEL = os.environ.get("QUIRE_MODEL", str(ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    text: str

    def json(self):
        return json.loads(self.text)


class Server:
    """A running `quire serve`, and what it wrote to its log. trusted: the certificate it shows where it speaks TLS."""

    def __init__(self, *options: str, models: list[str] | None = None, trusted: Path | None = None, environment: dict[str, str] | None = None) -> None:
        self.tls = None if trusted is None else ssl.create_default_context(cafile=str(trusted))
        named = ["-m", MODEL, "--alias", "smol"] if models is None else [word for model in models for word in ("-m", model)]
        command = [QUIRE, "serve", *named, "--port", "0", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
        self.lines: list[str] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"on https?://[^ ]*:(\d+)", line):
                self.port = int(found.group(1))
                break
        else:
            raise RuntimeError(f"the server did not start: {''.join(self.lines)}")
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def client(self, key: str = "none") -> openai.OpenAI:
        http_client = openai.DefaultHttpxClient(verify=self.tls) if self.tls else None
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=120, http_client=http_client)

    def connection(self) -> http.client.HTTPConnection:
        if self.tls:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=120, context=self.tls)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def call(self, method: str, path: str, body: object = None) -> Reply:
        """One plain request; a body that is no text goes as JSON."""
        connection = self.connection()
        try:
            data = body if body is None or isinstance(body, str) else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            headers = {name.lower(): value for name, value in reply.getheaders()}
            return Reply(reply.status, headers, reply.read().decode())
        finally:
            connection.close()

    def log(self) -> str:
        return "".join(self.lines)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=90)
        self.reader.join(timeout=10)
        return status


@pytest.fixture(scope="session")
def server():
    running = Server()
    yield running
    assert running.stop() == 0, running.log()


@pytest.fixture
def start():
    """Starts servers that end with the test."""
    running: list[Server] = []

    def start_one(*options: str, **more) -> Server:
        running.append(Server(*options, **more))
        return running[-1]

    yield start_one
    for one in running:
        one.stop()


@pytest.fixture
def client(server: Server) -> openai.OpenAI:
    return server.client()
