#!/usr/bin/env python3
"""llama.cpp's side of bench/peers.py: measures what it is asked for, one line of JSON at a time, and keeps what it has loaded.

    PYTHON bench/peer_llama_cpp.py                                   answers requests on standard input
    PYTHON bench/peer_llama_cpp.py --first-token MODEL TEXT THREADS  says when the first token is there

What is timed is llama_decode until its logits are there; nothing is sampled. Needs the environment that
scripts/oracle_env.sh makes (peers).
"""

from __future__ import annotations

import json
import time

import llama_cpp
import numpy as np

from peer_side import answer
from peer_text import text

IMPORTED = time.monotonic()
TYPES = {"f16": llama_cpp.GGML_TYPE_F16, "q8_0": llama_cpp.GGML_TYPE_Q8_0, "q4_0": llama_cpp.GGML_TYPE_Q4_0}
CONTEXT = 8192


@llama_cpp.llama_log_callback
def ignore(_level, _text, _data):
    pass


def batches(ctx_batch: int, tokens: list[int], position: int) -> list[llama_cpp.llama_batch]:
    """Batches of one sequence from a position on; logits are asked for at the end only."""
    made = []
    for start in range(0, len(tokens), ctx_batch):
        part = tokens[start : start + ctx_batch]
        made.append(filled([(token, position + start + i, 0) for i, token in enumerate(part)], False))
    made[-1].logits[made[-1].n_tokens - 1] = 1
    return made


def filled(entries: list[tuple[int, int, int]], logits: bool) -> llama_cpp.llama_batch:
    """A batch of (token, position, sequence)."""
    batch = llama_cpp.llama_batch_init(len(entries), 0, 1)
    batch.n_tokens = len(entries)
    for i, (token, position, sequence) in enumerate(entries):
        batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position, 1
        batch.seq_id[i][0] = sequence
        batch.logits[i] = logits
    return batch


class Context:
    """A cache that holds the beginning of the text, in its first sequence or shared by all of them."""

    def __init__(self, model, request: dict):
        self.batch = request["batch"]
        self.n_batch = request.get("n_batch", 2048)
        unified = request.get("unified", True)
        params = llama_cpp.llama_context_default_params()
        # Cells that nobody uses cost nothing; without one buffer for all, every sequence has a part of them.
        params.n_ctx = request.get("context", CONTEXT) if unified else 4096 * self.batch
        params.n_batch, params.n_ubatch = self.n_batch, request.get("n_ubatch", 512)
        params.n_threads = params.n_threads_batch = request["threads"]
        params.n_seq_max, params.kv_unified = self.batch, unified
        params.type_k = params.type_v = TYPES[request["format"]]
        params.flash_attn_type = (
            llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED if request.get("flash", True) else llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        self.ctx = llama_cpp.llama_init_from_model(model, params)
        if not self.ctx:
            raise RuntimeError("llama.cpp made no context with these settings")
        self.memory = llama_cpp.llama_get_memory(self.ctx)
        self.held = 0

    def compute(self, batch: llama_cpp.llama_batch) -> None:
        status = llama_cpp.llama_decode(self.ctx, batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")

    def finish(self) -> None:
        llama_cpp.llama_get_logits_ith(self.ctx, -1)  # waits until they are there

    def go_to(self, depth: int) -> None:
        if self.held > depth and not llama_cpp.llama_memory_seq_rm(self.memory, 0, depth, -1):
            llama_cpp.llama_memory_clear(self.memory, True)
            self.held = 0
        self.held = min(self.held, depth)
        if self.held < depth:
            self.prefill(depth - self.held)

    def prefill(self, n: int) -> float:
        """Milliseconds of the next n tokens of the text."""
        made = batches(self.n_batch, text(n, self.held), self.held)
        begin = time.perf_counter()
        for batch in made:
            self.compute(batch)
        self.finish()
        ms = (time.perf_counter() - begin) * 1e3
        for batch in made:
            llama_cpp.llama_batch_free(batch)
        self.held += n
        return ms

    def decode(self, n: int) -> float:
        """Milliseconds of each of the next n tokens of the text, one after the other."""
        batch = filled([(0, 0, 0)], True)
        tokens = text(n, self.held)
        begin = time.perf_counter()
        for i, token in enumerate(tokens):
            batch.token[0], batch.pos[0] = token, self.held + i
            self.compute(batch)
            self.finish()
        ms = (time.perf_counter() - begin) * 1e3
        llama_cpp.llama_batch_free(batch)
        self.held += n
        return ms / n

    def decode_together(self, n: int, shared: int) -> float:
        """Milliseconds of a step in which every sequence goes on after the prefix that all share."""
        if self.held != shared:
            llama_cpp.llama_memory_clear(self.memory, True)
            self.held = 0
            self.prefill(shared)
            for sequence in range(1, self.batch):
                llama_cpp.llama_memory_seq_cp(self.memory, 0, sequence, -1, -1)
        batch = filled([(0, 0, sequence) for sequence in range(self.batch)], True)
        begin = 0.0
        for i in range(n + 1):
            for sequence in range(self.batch):
                batch.token[sequence], batch.pos[sequence] = text(1, (sequence + 1 << 32) + i)[0], shared + i
            if i == 1:  # the first step is everybody's own token
                begin = time.perf_counter()
            self.compute(batch)
            self.finish()
        ms = (time.perf_counter() - begin) * 1e3
        llama_cpp.llama_batch_free(batch)
        for sequence in range(self.batch):
            llama_cpp.llama_memory_seq_rm(self.memory, sequence, shared, -1)
        return ms / n


class Worker:
    def __init__(self):
        self.models, self.contexts = {}, {}

    def model(self, path: str):
        if path not in self.models:
            model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
            if not model:
                raise RuntimeError(f"llama.cpp cannot load {path}")
            self.models[path] = model
        return self.models[path]

    def context(self, request: dict) -> Context:
        settings = ("model", "format", "threads", "batch", "flash", "n_batch", "n_ubatch", "unified")
        key = tuple(request.get(name) for name in settings)
        if key not in self.contexts:
            self.contexts[key] = Context(self.model(request["model"]), request)
        return self.contexts[key]

    def forget(self) -> float:
        for context in self.contexts.values():
            llama_cpp.llama_free(context.ctx)
        self.contexts.clear()
        return 0.0

    def measure(self, request: dict) -> float:
        if request["kind"] == "forget":
            return self.forget()
        context = self.context(request)
        if request["batch"] > 1:
            return context.decode_together(request["n"], request["shared"])
        context.go_to(request["depth"])
        return context.prefill(request["n"]) if request["kind"] == "prefill" else context.decode(request["n"])


def first_token(path: str, prompt: str, threads: int) -> None:
    worker = Worker()
    model = worker.model(path)
    vocab = llama_cpp.llama_model_get_vocab(model)
    tokens = (llama_cpp.llama_token * 256)()
    data = prompt.encode()
    count = llama_cpp.llama_tokenize(vocab, data, len(data), tokens, len(tokens), True, False)
    # A context of its size is cleared when it is made.
    context = worker.context({"model": path, "format": "f16", "threads": threads, "batch": 1, "context": 512, "n_batch": 512})
    batch = batches(512, list(tokens[:count]), 0)[0]
    context.compute(batch)
    logits = llama_cpp.llama_get_logits_ith(context.ctx, -1)
    np.ctypeslib.as_array(logits, (llama_cpp.llama_vocab_n_tokens(vocab),)).argmax()
    print(".", flush=True)
    print(json.dumps({"imported": IMPORTED}), flush=True)


def about() -> dict:
    return {"versions": {"llama-cpp-python": llama_cpp.__version__}, "built for": llama_cpp.llama_print_system_info().decode()}


def main() -> None:
    llama_cpp.llama_log_set(ignore, None)
    llama_cpp.llama_backend_init()
    answer(about, Worker, first_token)


if __name__ == "__main__":
    main()
