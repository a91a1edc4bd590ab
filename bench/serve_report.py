"""What bench/serve.py measured, as a document with its bars."""

from __future__ import annotations

from engine import table

MIB = 1 << 20
# Beside --cache-bytes: the model, what it is computed with, and connections.
CONSTANT = 512 * MIB
FLAT = 0.02  # the server's memory may grow by so much from the third quarter to the last, when the cache is long full


class Bars:
    def __init__(self) -> None:
        self.missed: list[str] = []

    def verdict(self, what: str, met: bool) -> str:
        if not met:
            self.missed.append(what)
        return "reached" if met else "**not reached**"

    def table(self, rows: list[tuple[str, str, str, bool]]) -> list[str]:
        """What, what came out, the bar, whether it was reached."""
        return table(["", "measured", "bar", ""], [[what, f"**{came}**", bar, self.verdict(what, met)] for what, came, bar, met in rows])


def growth(memory: list[int]) -> float:
    """From the mean of the third quarter to that of the last."""
    quarter = len(memory) // 4
    if quarter == 0:
        return 0.0
    early, late = memory[2 * quarter : 3 * quarter], memory[3 * quarter :]
    return sum(late) / len(late) / (sum(early) / len(early)) - 1


def mib(count: float) -> str:
    return f"{count / MIB:,.0f} MiB"


def ms(value: float) -> str:
    return f"{value / 1e3:,.1f} s" if value >= 10_000 else f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"


def spread(of: dict | None, *shares: str) -> str:
    return ", ".join(ms(of[share]) for share in shares) if of else "–"


def leaked(idle: dict) -> str:
    return f"{idle['open_pages'] + idle['sealed_pages']} pages, {idle['bytes']} bytes"


def none_leaked(idle: dict) -> bool:
    return idle["open_pages"] == idle["sealed_pages"] == idle["bytes"] == 0


def errors(result: dict) -> str:
    kinds = "; ".join(f"{kind}: {count}" for kind, count in result["errors_by_kind"].items())
    return f"{result['errors']} errors" + (f" ({kinds})" if kinds else "")


def told(result: dict) -> str:
    return f"{result['when']}, {result['quire']}, {result['machine']}"


def load_part(bars: Bars, results: dict) -> list[str]:
    r = results["load"]
    rows = [
        ("errors", errors(r), "0", r["errors"] == 0),
        ("left in the cache at idle, once told to forget", leaked(r["idle"]), "0", none_leaked(r["idle"])),
        ("memory, from the third quarter of the time to the last", f"{growth(r['memory']):+.1%}", f"within {FLAT:.0%}", abs(growth(r["memory"])) <= FLAT),
    ]
    columns = [["Quire", r]]
    if "llama" in results:
        by_slots = {slots: of for slots, of in results["llama"].items() if slots.isdigit()}
        columns += [[f"llama-server -np {slots}", of] for slots, of in by_slots.items()]
        best = max(of["tokens_per_second"] for of in by_slots.values())
        ratio = r["tokens_per_second"] / max(best, 1e-9)
        rows.append(("tokens a second, beside llama-server at its best", f"{ratio:.1f} times", "10 times", ratio >= 10))
        if longer := results["llama"].get("longer"):
            columns.append([f"llama-server -np {longer['slots']}, {longer['seconds']:.0f} s", longer])
    figures = [[name, f"**{of['tokens_per_second']:.0f}**", f"{of['answered']:,}", str(of["errors"]), spread(of["first_token_ms"], "p50", "p99"),
                spread(of["between_tokens_ms"], "p50", "p99"), mib(max(of["memory"])), f"{of['server_cpu_share']:.2f}", f"{of['client_cpu_share']:.3f}",
                f"{of['others_cpu_share']:.2f}"]
               for name, of in columns]
    text = ["## Many clients", "",
            f"Each asks again when it was answered, for {r['seconds']:.0f} s: 64 tokens with the model's end ignored, streamed, after a system prompt of 1,000 tokens that all",
            "share and a question of its own. Tokens are those that came within the time. The clients are one C++ program (`bench/load_client.cpp`) on the same",
            "processors; shares are of one processor.", "",
            *table(["", "tokens a second", "answers", "errors", "first token p50, p99", "between tokens p50, p99", "memory at most", "server's processors", "clients' processors", "all others' processors"], figures), "",
            *bars.table(rows), "", f"`{r['server']}` and `{r['command']}`, {told(r)}."]
    if "llama" in results:
        of = results["llama"]
        each = [value for slots, value in of.items() if slots.isdigit()]
        text += ["", f"llama-server from {of['version']}, compiled for this processor: " + ", ".join(f"`{value['server']}` for {value['seconds']:.0f} s" for value in each)
                 + f"; what was not answered by then was left. {told(of)}."]
    return [*text, ""]


def overload_part(bars: Bars, results: dict) -> list[str]:
    r = results["overload"]
    refusals, most = r["server_refusal_ms"], max(r["memory"])
    others = {status: count for status, count in r["statuses"].items() if status not in ("200", "429", "503")}
    bound = r["idle"]["budget"] + CONSTANT
    return ["## Ten times what it can answer", "",
            f"{r['rate']:.0f} requests a second for {r['seconds']:.0f} s, each on a connection of its own, whatever became of those before: {r['requests']:,} requests, {r['answered']:,} answered in full,",
            f"{r['refused']:,} refused. The last answer came {r['seconds_until_last_answer'] - r['seconds']:.0f} s after the last request. By the clients' clocks a refusal took "
            f"{spread(r['refusal_ms'], 'p50', 'p99')} (p50, p99).", "",
            *bars.table([
                ("refusals that are neither 429 nor 503", str(sum(others.values())), "0", not others),
                ("refusals without `Retry-After`", str(r["refused_without_retry_after"]), "0", r["refused"] > 0 and r["refused_without_retry_after"] == 0),
                ("a refusal by the server's log, p99", ms(refusals["p99"]) if refusals else "–", "50 ms", refusals is not None and refusals["p99"] < 50),
                ("hung or broken", errors(r), "0", r["errors"] == 0 and r["abandoned"] == 0),
                ("memory at most", mib(most), f"--cache-bytes + {mib(CONSTANT)}: {mib(bound)}", most <= bound),
                ("left in the cache at idle", leaked(r["idle"]), "0", none_leaked(r["idle"])),
            ]), "", f"`{r['server']}`, {told(r)}.", ""]


def streams_part(bars: Bars, results: dict) -> list[str]:
    r = results["streams"]
    return ["## A thousand open streams", "",
            f"{r['requests']:,} clients at once, each with one request; {r['running']} ran together at most, the others waited in line, told every 15 s that they are still there "
            f"({r['keep_alives']:,} times). First token p50, p99: {spread(r['first_token_ms'], 'p50', 'p99')}; {r['tokens_per_second']:.0f} tokens a second.", "",
            *bars.table([
                ("admitted or in line at one moment", f"{r['together']:,}", "1,000", r["together"] >= 1000),
                ("errors", errors(r), "0", r["errors"] == 0 and r["answered"] == r["requests"]),
                ("longest silence of a stream", ms(r["longest_silence_ms"]), "20 s", r["longest_silence_ms"] < 20_000),
                ("left in the cache at idle", leaked(r["idle"]), "0", none_leaked(r["idle"])),
            ]), "", f"`{r['server']}`, {told(r)}.", ""]


def slow_part(bars: Bars, results: dict) -> list[str]:
    r = results["slow"]
    runs = {name: of for name, of in r.items() if isinstance(of, dict) and "first_token_ms" in of}
    base = runs["without"]
    rows = []
    for name, of in runs.items():
        ratios = [of[key]["p99"] / base[key]["p99"] for key in ("first_token_ms", "between_tokens_ms", "whole_answer_ms")]
        attacked = "attack" in of
        verdict = bars.verdict(f"others beside {name}", max(ratios) < 2 and of["errors"] == 0) if attacked else ""
        rows.append([name, *(f"{ms(of[key]['p99'])} ({ratio:.2f})" for key, ratio in zip(("first_token_ms", "between_tokens_ms", "whole_answer_ms"), ratios)),
                     str(of["errors"]), f"{of['server_cpu_share']:.2f}", f"{of['others_cpu_share']:.2f}", f"`{of['attack']}`" if attacked else "", verdict])
    return ["## A thousand slow connections", "",
            "16 clients as above while `slowhttptest` holds 1,000 connections. It computes on the same processors, where it takes a third of one or more by itself.",
            "p99 of what the 16 saw, and beside what they saw without (bar: twice).", "",
            *table(["slow connections", "first token", "between tokens", "whole answer", "errors", "server's processors", "others' processors", "", ""], rows), "", f"{told(r)}.", ""]


def leavers_part(bars: Bars, results: dict) -> list[str]:
    r = results["leavers"]
    return ["## Clients that leave", "",
            f"{r['clients']:,} clients leave before their answer, at its head or within it, 20 at a time, half of them with a reset. Until nothing runs and no page is held, the "
            f"step in flight included: p50 {r['p50']} ms, at most {r['most']} ms.", "",
            *bars.table([
                ("until their pages are back, p99", f"{r['p99']} ms", "100 ms", r["p99"] <= 100),
                ("pages left", "none" if r["passed"] else "some", "none", r["passed"]),
            ]), "", f"`tests/server/test_leavers.py`, {told(r)}.", ""]


def document(results: dict, model: str) -> tuple[str, list[str]]:
    """Its text, and the bars that were missed."""
    bars = Bars()
    parts = {"load": load_part, "overload": overload_part, "streams": streams_part, "slow": slow_part, "leavers": leavers_part}
    text = ["# The server under load", "", f"Written by `bench/serve.py` (`make bench-serve`), {model}. Nothing here is edited by hand.", ""]
    for name, part in parts.items():
        if name in results:
            text += part(bars, results)
    return "\n".join(text).rstrip() + "\n", bars.missed
