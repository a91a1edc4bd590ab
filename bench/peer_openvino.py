#!/usr/bin/env python3
"""OpenVINO GenAI's side of bench/peers.py: measures what it is asked for, one line of JSON at a time, and keeps what it has loaded.

    PYTHON bench/peer_openvino.py                                   answers requests on standard input
    PYTHON bench/peer_openvino.py --first-token MODEL TEXT THREADS  says when the first token is there

With paged attention (PA) its steps are timed from outside; with SDPA its own metrics are taken. Both include its choice
of the likeliest token, which cannot be left out. Needs the environment that scripts/oracle_env.sh makes (peers).
"""

from __future__ import annotations

import json
import time

import numpy as np
import openvino
import openvino_genai as genai

from peer_side import answer
from peer_text import text

IMPORTED = time.monotonic()
CACHE_GB = 1


def tensor(tokens: list[int]) -> openvino.Tensor:
    return openvino.Tensor(np.array([tokens], dtype=np.int64))


def greedy(n: int) -> genai.GenerationConfig:
    config = genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.do_sample = n, True, False
    return config


def device_properties(request: dict) -> dict:
    properties = {"INFERENCE_NUM_THREADS": request["threads"], "PERFORMANCE_HINT": "LATENCY"}
    if request.get("format"):
        properties["KV_CACHE_PRECISION"] = request["format"]
    return {**properties, **request.get("properties", {})}


class Paged:
    """Continuous batching on paged attention, with its cache of prefixes."""

    def __init__(self, request: dict):
        scheduler = genai.SchedulerConfig()
        scheduler.enable_prefix_caching = True
        scheduler.cache_size = CACHE_GB
        scheduler.max_num_batched_tokens = request.get("max_num_batched_tokens", 8192)
        self.pipeline = genai.ContinuousBatchingPipeline(request["model"], scheduler, "CPU", device_properties(request))
        self.requests = 0

    def steps(self, prompts: list[list[int]], n: int) -> list[float]:
        """Milliseconds of every step until each prompt was answered with n tokens: the last n - 1 generate one each."""
        begin = time.perf_counter()  # taking a request is part of its first step
        handles = []  # letting one go would cancel its request
        for prompt in prompts:
            self.requests += 1
            handles.append(self.pipeline.add_request(self.requests, tensor(prompt), greedy(n)))
        taken = []
        while self.pipeline.has_non_finished_requests():
            self.pipeline.step()
            now = time.perf_counter()
            taken.append((now - begin) * 1e3)
            begin = now
        if any(handle.get_status() != genai.GenerationStatus.FINISHED for handle in handles):
            raise RuntimeError("OpenVINO GenAI did not finish; is its cache too small?")
        return taken

    def prefill(self, known: list[int], new: list[int]) -> float:
        if known:
            self.steps([known], 1)
        return sum(self.steps([known + new], 1))

    def decode(self, prompts: list[list[int]], n: int) -> float:
        taken = self.steps(prompts, n + 1)
        if len(prompts) > 1 and len(taken) > n + 1:
            raise RuntimeError(f"{len(prompts)} sequences took {len(taken)} steps for {n + 1} tokens: not all went together")
        return sum(taken[-n:]) / n


class Stateful:
    """One sequence at a time, without paged attention or prefixes."""

    def __init__(self, request: dict):
        self.pipeline = genai.LLMPipeline(request["model"], "CPU", ATTENTION_BACKEND="SDPA", **device_properties(request))

    def prefill(self, known: list[int], new: list[int]) -> float:
        if known:
            raise RuntimeError("no prefixes without paged attention")
        return self.pipeline.generate(tensor(new), greedy(1)).perf_metrics.get_ttft().mean

    def decode(self, prompts: list[list[int]], n: int) -> float:
        if len(prompts) > 1:
            raise RuntimeError("one sequence at a time without paged attention")
        return self.pipeline.generate(tensor(prompts[0]), greedy(n + 1)).perf_metrics.get_tpot().mean


class Worker:
    def __init__(self):
        self.pipelines = {}
        self.prompts = 0

    def pipeline(self, request: dict):
        settings = ("model", "format", "threads", "max_num_batched_tokens", "properties")
        stateful = request.get("backend") == "SDPA"
        key = json.dumps([stateful, *[request.get(name) for name in settings]])
        if key not in self.pipelines:
            self.pipelines[key] = Stateful(request) if stateful else Paged(request)
        return self.pipelines[key]

    def measure(self, request: dict) -> float:
        if request["kind"] == "forget":
            self.pipelines.clear()
            return 0.0
        pipeline = self.pipeline(request)
        n, depth = request["n"], request["depth"]
        if request["kind"] == "prefill":
            self.prompts += 1  # what was there before would be found in the cache
            return pipeline.prefill(text(depth), text(n, self.prompts << 40))
        if request["batch"] == 1:
            # Nothing is before the first token of all but that one.
            return pipeline.decode([text(max(depth, 1))], n)
        prefix = text(request["shared"])
        pipeline.steps([prefix], 1)
        return pipeline.decode([prefix + text(1, sequence + 1 << 32) for sequence in range(request["batch"])], n)


def first_token(path: str, prompt: str, threads: int) -> None:
    pipeline = genai.LLMPipeline(path, "CPU", INFERENCE_NUM_THREADS=threads, PERFORMANCE_HINT="LATENCY")
    config = greedy(1)
    config.apply_chat_template = False
    pipeline.generate(prompt, config)
    print(".", flush=True)
    print(json.dumps({"imported": IMPORTED}), flush=True)


def about() -> dict:
    return {"versions": {"openvino-genai": genai.__version__, "openvino": openvino.__version__}}


def main() -> None:
    answer(about, Worker, first_token)


if __name__ == "__main__":
    main()
