"""Anthropic's own client, unchanged."""

from __future__ import annotations

import anthropic
import pytest

GREEDY = {"temperature": 0}  # newer clients have no argument for it
ASK = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture
def claude(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=120)


def test_a_message(claude):
    answer = claude.messages.create(model="smol", max_tokens=24, messages=ASK, extra_body=GREEDY)
    assert "Paris" in answer.content[0].text
    assert (answer.role, answer.stop_reason) == ("assistant", "end_turn")
    assert answer.usage.output_tokens > 0
    assert claude.messages.create(model="smol", max_tokens=2, messages=ASK, extra_body=GREEDY).stop_reason == "max_tokens"


def test_streamed_as_in_one_piece(claude):
    asked = {"model": "smol", "max_tokens": 40, "extra_body": GREEDY, "system": "You are brief.", "messages": ASK}
    whole = claude.messages.create(**asked)
    with claude.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        last = stream.get_final_message()
    assert text == whole.content[0].text == last.content[0].text
    assert last.stop_reason == whole.stop_reason
    assert last.usage.output_tokens == whole.usage.output_tokens


def test_breakpoints_are_counted(claude):
    long = "The rules of the house, which everybody must read with care before they come in. " * 8
    system = [{"type": "text", "text": long, "cache_control": {"type": "ephemeral"}}]
    first = claude.messages.create(model="smol", max_tokens=2, system=system, messages=ASK, extra_body=GREEDY)
    assert first.usage.cache_creation_input_tokens > 100
    again = claude.messages.create(model="smol", max_tokens=2, system=system, messages=[{"role": "user", "content": "And of Italy?"}], extra_body=GREEDY)
    assert again.usage.cache_read_input_tokens > 100


def test_stop_sequences(claude):
    ask = [{"role": "user", "content": "Count from one to ten in words."}]
    answer = claude.messages.create(model="smol", max_tokens=60, messages=ask, stop_sequences=["three"], extra_body=GREEDY)
    assert "three" not in answer.content[0].text


def test_errors_have_its_shape(claude):
    with pytest.raises(anthropic.BadRequestError) as refused:
        claude.messages.create(model="smol", max_tokens=0, messages=ASK)
    with pytest.raises(anthropic.BadRequestError, match="stop_sequences"):
        claude.messages.create(model="smol", max_tokens=4, messages=ASK, stop_sequences=["x" * 2000])
    assert refused.value.body["error"]["type"] == "invalid_request_error"
    with pytest.raises(anthropic.NotFoundError):
        claude.messages.create(model="other", max_tokens=4, messages=ASK)
