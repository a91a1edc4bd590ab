"""Anthropic's own client, unchanged."""

from __future__ import annotations

import anthropic
import pytest

GREEDY = {"temperature": 0}  # newer clients have no argument for it
ASK = [{"role": "user", "content": "Tell me the capital of France."}]


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


WEATHER = {
    "name": "get_weather",
    "description": "The weather at a place.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["celsius", "fahrenheit"]}}, "required": ["city", "unit"], "additionalProperties": False},
}
TIME = {"name": "get_time", "input_schema": {"type": "object", "properties": {"zone": {"enum": ["UTC", "CET"]}}, "required": ["zone"]}}
TOOLS = [WEATHER, TIME]


def use(claude, **more):
    return claude.messages.create(**{"model": "smol", "max_tokens": 100, "messages": ASK, "tools": TOOLS, **more})


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("choice", "names"), [({"type": "any"}, {"get_weather", "get_time"}), ({"type": "tool", "name": "get_time"}, {"get_time"})])
def test_tools_are_used_when_they_must_be(claude, choice, names, seed):
    answer = use(claude, tool_choice=choice, extra_body={"temperature": 1, "seed": seed})
    assert answer.stop_reason == "tool_use"
    (block,) = answer.content
    assert block.type == "tool_use" and block.id and block.name in names
    if block.name == "get_time":
        assert block.input["zone"] in ("UTC", "CET")
    else:
        assert set(block.input) == {"city", "unit"}


def test_tools_used_are_streamed(claude):
    asked = {"model": "smol", "max_tokens": 100, "messages": ASK, "tools": TOOLS, "tool_choice": {"type": "any"}, "extra_body": {"temperature": 1, "seed": 2}}
    whole = claude.messages.create(**asked)
    pieces = []
    with claude.messages.stream(**asked) as stream:
        for event in stream:
            if event.type == "input_json":
                pieces.append(event.partial_json)
        last = stream.get_final_message()
    assert last.stop_reason == "tool_use" and len(pieces) > 3
    assert [(b.name, b.input) for b in last.content] == [(b.name, b.input) for b in whole.content]


def test_text_and_then_a_tool(claude):
    grammar = 'root ::= "Let me look. <tool_call>{\\"name\\": \\"get_time\\", \\"arguments\\": {\\"zone\\": \\"CET\\"}}</tool_call>"'
    asked = {"model": "smol", "max_tokens": 100, "messages": ASK, "tools": TOOLS, "extra_body": {"grammar": grammar}}
    with claude.messages.stream(**asked) as stream:
        last = stream.get_final_message()
    for answer in (last, claude.messages.create(**asked)):
        assert [block.type for block in answer.content] == ["text", "tool_use"]
        assert answer.content[0].text == "Let me look." and answer.content[1].input == {"zone": "CET"}
        assert answer.stop_reason == "tool_use"
    none = claude.messages.create(**asked, tool_choice={"type": "none"})
    assert [block.type for block in none.content] == ["text"]


def test_what_a_tool_gave_goes_on(claude):
    used = {"type": "tool_use", "id": "toolu_1", "name": "get_time", "input": {"zone": "CET"}}
    gave = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "12:30"}]}
    talk = [*ASK, {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, used]}, {"role": "user", "content": [gave, {"type": "text", "text": "So?"}]}]
    first = use(claude, messages=talk[:1], extra_body=GREEDY)
    second = use(claude, messages=talk, max_tokens=8, extra_body=GREEDY)
    assert second.usage.cache_read_input_tokens > 50, "the tools are at the beginning of both"
    assert first.content and second.content


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"tools": [{"name": "a b", "input_schema": {}}]}, "tools[0].name"),
        ({"tools": [{"name": "f", "input_schema": {"type": "array"}}]}, "tools[0].input_schema.type"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
        ({"tool_choice": {"type": "sometimes"}}, "tool_choice"),
        ({"tool_choice": {"type": "tool", "name": "other"}}, "tool_choice.name"),
        ({"tools": [], "tool_choice": {"type": "any"}}, "tool_choice"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]}, "messages[0].content[0].tool_use_id"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "x", "name": "y", "input": {}}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].type"),
    ],
)
def test_what_is_wrong_with_tools_is_said(claude, more, field):
    with pytest.raises(anthropic.BadRequestError) as refused:
        use(claude, **more)
    assert refused.value.body["error"]["type"] == "invalid_request_error"
    assert f"'{field}'" in refused.value.body["error"]["message"]
