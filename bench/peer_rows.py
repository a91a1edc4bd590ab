"""What bench/peers.py measures: the work, who does it, and the ratios that are asked for."""

from __future__ import annotations

from dataclasses import asdict, dataclass

QUIRE, LLAMA, OPENVINO = "Quire", "llama.cpp", "OpenVINO GenAI"


@dataclass(frozen=True)
class Contender:
    engine: str
    format: str  # of keys and values, as the engine spells it

    @property
    def name(self) -> str:
        return f"{self.engine} {self.format}"


@dataclass(frozen=True)
class Work:
    kind: str  # prefill, decode, startup or probe
    n: int = 0  # tokens computed at once, or generated one after the other by each of the batch
    depth: int = 0  # tokens before them
    batch: int = 1
    shared: int = 0  # of the depth, the same for all of the batch

    def tokens_per_second(self, ms: float) -> float:
        """From the milliseconds of a prompt, or of a step of all of the batch."""
        return (self.n if self.kind == "prefill" else self.batch) * 1e3 / ms

    def request(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class Row:
    name: str
    group: str  # what --rows chooses
    title: str
    model: str
    work: Work
    contenders: tuple[Contender, ...]
    shows_time: bool = False  # in milliseconds rather than tokens a second


@dataclass(frozen=True)
class Comparison:
    row: str
    title: str
    ours: Contender
    theirs: tuple[Contender, ...]
    at_least: float | None = None  # the ratio asked for
    at_most_ms: float | None = None  # our time asked for, where it is not a ratio


def contenders(text: str) -> tuple[Contender, ...]:
    """From a list such as: Quire f16, llama.cpp q8_0."""
    return tuple(Contender(*item.strip().rsplit(" ", 1)) for item in text.split(","))


SIXTEEN_BIT = contenders(f"{LLAMA} f16, {OPENVINO} f16")
EIGHT_BIT = contenders(f"{LLAMA} q8_0, {OPENVINO} u8")
FOUR_BIT = contenders(f"{LLAMA} q4_0, {OPENVINO} u4")
OURS = {bits: Contender(QUIRE, name) for bits, name in ((16, "f16"), (8, "q8"), (4, "q4"))}
EVERY = SIXTEEN_BIT + EIGHT_BIT + FOUR_BIT
# Prompts, and many sequences: llama.cpp is fastest with f16, OpenVINO with either.
FEW = SIXTEEN_BIT + EIGHT_BIT[1:]


def decode_row(depth: int, n: int) -> Row:
    return Row(f"decode-{depth}", "decode", f"decode, depth {depth:,}", "smollm2", Work("decode", n, depth), (*OURS.values(), *EVERY))


def prompt_row(n: int) -> Row:
    return Row(f"prefill-{n}", "prefill", f"prefill {n:,}", "smollm2", Work("prefill", n), (OURS[16], *FEW))


# In the order in which they are measured: what is in a cache for one is often the beginning of what the next needs.
ROWS = (
    Row("probe", "probe", "what the machine can do", "smollm2", Work("probe"), contenders("quire bench, second probe")),
    Row("startup", "startup", "from exec to the first token", "smollm2", Work("startup", 1), (OURS[16], *SIXTEEN_BIT), True),
    prompt_row(512),
    Row("batch", "batch", "16 sequences on one prefix of 2,048", "smollm2", Work("decode", 32, 2048, 16, 2048), (OURS[16], *FEW)),
    Row("gemma-prefill", "gemma", "Gemma 3 270M: prefill 512", "gemma3", Work("prefill", 512), (OURS[16], *SIXTEEN_BIT)),
    Row("gemma-decode", "gemma", "Gemma 3 270M: decode, depth 0", "gemma3", Work("decode", 64), (OURS[16], *SIXTEEN_BIT)),
    decode_row(0, 64),
    decode_row(2048, 32),
    decode_row(7680, 32),
    Row("ttft", "ttft", "first token, 4,032 cached and 64 new", "smollm2", Work("prefill", 64, 4032), (OURS[16], *FEW), True),
    prompt_row(4096),
)
GROUPS = tuple(dict.fromkeys(row.group for row in ROWS))

# In the order in which they are shown.
COMPARISONS = (
    Comparison("prefill-512", "prefill 512", OURS[16], FEW, 1.3),
    Comparison("prefill-4096", "prefill 4,096", OURS[16], FEW, 1.3),
    # Hardly anything is cached yet, so their formats differ in settings alone.
    Comparison("decode-0", "decode, depth 0, f16, against any format", OURS[16], EVERY, 1.5),
    Comparison("decode-0", "decode, depth 0, 8-bit cache", OURS[8], EIGHT_BIT),
    Comparison("decode-0", "decode, depth 0, 4-bit cache, against any format", OURS[4], EVERY),
    Comparison("decode-2048", "decode, depth 2,048, f16", OURS[16], SIXTEEN_BIT, 2),
    Comparison("decode-2048", "decode, depth 2,048, 8-bit cache", OURS[8], EIGHT_BIT),
    Comparison("decode-2048", "decode, depth 2,048, 4-bit cache, against any format", OURS[4], EVERY),
    Comparison("decode-7680", "decode, depth 7,680, f16", OURS[16], SIXTEEN_BIT, 2.2),
    Comparison("decode-7680", "decode, depth 7,680, 8-bit cache", OURS[8], EIGHT_BIT, 2.5),
    Comparison("decode-7680", "decode, depth 7,680, 4-bit cache, against any format", OURS[4], EVERY, 3),
    Comparison("batch", "16 sequences on one prefix of 2,048, against llama.cpp", OURS[16], SIXTEEN_BIT[:1], 5),
    Comparison("batch", "16 sequences on one prefix of 2,048, against any", OURS[16], FEW, 2),
    Comparison("ttft", "first token, 4,032 cached and 64 new", OURS[16], FEW, 1.5),
    Comparison("startup", "from exec to the first token", OURS[16], SIXTEEN_BIT, at_most_ms=400),
    Comparison("gemma-prefill", "Gemma 3 270M: prefill 512", OURS[16], SIXTEEN_BIT),
    Comparison("gemma-decode", "Gemma 3 270M: decode, depth 0", OURS[16], SIXTEEN_BIT),
)


@dataclass(frozen=True)
class Tuning:
    """Settings of a peer that are tried on some work; the fastest is used for all work of that purpose."""

    engine: str
    purpose: str
    work: Work
    format: str
    candidates: tuple[dict, ...]


def purpose(work: Work) -> str:
    if work.kind == "decode" and work.batch > 1:
        return "batch"
    return work.kind


LLAMA_PROMPT = tuple(
    {"flash": flash, "n_batch": batch, "n_ubatch": ubatch}
    for flash in (True, False)
    for batch, ubatch in ((512, 512), (2048, 128), (2048, 2048))
)
TUNINGS = (
    Tuning(LLAMA, "prefill", Work("prefill", 1024), "f16", LLAMA_PROMPT),
    Tuning(LLAMA, "decode", Work("decode", 32, 1024), "f16", ({"flash": True}, {"flash": False})),
    Tuning(
        LLAMA, "batch", Work("decode", 8, 1024, 16, 1024), "f16",
        tuple({"flash": flash, "unified": unified} for flash in (True, False) for unified in (True, False)),
    ),
    Tuning(
        OPENVINO, "prefill", Work("prefill", 1024), "u8",
        tuple({"max_num_batched_tokens": tokens} for tokens in (256, 512, 2048, 8192)),
    ),
    Tuning(OPENVINO, "decode", Work("decode", 32, 1024), "u8", ({"backend": "PA"}, {"backend": "SDPA"})),
)


def applicable(tuned: dict, contender: Contender, work: Work) -> dict:
    """What was found best for such work, as the contender can have it; what it leaves open is as for prompts."""
    found = [tuned.get(f"{contender.engine} {kind}", {}).get("best", {}) for kind in ("prefill", purpose(work))]
    settings = {**found[0], **found[1]}
    if contender.engine == LLAMA and contender.format != "f16":
        settings["flash"] = True  # quantised values need it there
    return settings
