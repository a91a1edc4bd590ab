"""Tools: offered, chosen, enforced, streamed, and answered, in OpenAI's chat API."""

from __future__ import annotations

import json

import openai
import pytest

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather at a place.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["celsius", "fahrenheit"]}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
CLOCK = {
    "type": "function",
    "function": {
        "name": "get_time",
        "parameters": {
            "type": "object",
            "properties": {"zone": {"$ref": "#/$defs/zone"}},
            "required": ["zone"],
            "$defs": {"zone": {"enum": ["UTC", "CET"]}},
        },
    },
}
TOOLS = [WEATHER, CLOCK]
ASK = [{"role": "user", "content": "What is the weather in Paris?"}]


def ask(client, messages=ASK, **more):
    return client.chat.completions.create(model="smol", messages=messages, **{"tools": TOOLS, "temperature": 1.0, "max_tokens": 120, **more})


def check(call) -> None:
    """The call is one that the schemas allow."""
    assert call.type == "function" and call.id
    arguments = json.loads(call.function.arguments)
    if call.function.name == "get_time":
        assert arguments in ({"zone": "UTC"}, {"zone": "CET"})
        return
    assert call.function.name == "get_weather"
    assert {"city", "unit"} <= set(arguments) <= {"city", "unit", "days"}
    assert isinstance(arguments["city"], str) and len(arguments["city"]) <= 20
    assert arguments["unit"] in ("celsius", "fahrenheit")
    assert 1 <= arguments.get("days", 1) <= 7


@pytest.mark.parametrize("seed", range(20))
def test_required_calls_are_valid(client, seed):
    choice = ask(client, tool_choice="required", seed=seed).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    (call,) = choice.message.tool_calls
    check(call)


@pytest.mark.parametrize("name", ["get_weather", "get_time"])
@pytest.mark.parametrize("seed", range(5))
def test_the_named_tool_is_called(client, name, seed):
    choice = ask(client, tool_choice={"type": "function", "function": {"name": name}}, seed=seed).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert [call.function.name for call in choice.message.tool_calls] == [name]
    check(choice.message.tool_calls[0])


@pytest.mark.parametrize("seed", range(5))
def test_several_calls_may_be_asked_for(client, seed):
    choice = ask(client, tool_choice="required", parallel_tool_calls=True, seed=seed, max_tokens=400).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert 1 <= len(choice.message.tool_calls) <= 16
    for call in choice.message.tool_calls:
        check(call)
    assert len({call.id for call in choice.message.tool_calls}) == len(choice.message.tool_calls)


def streamed(client, **more):
    """The calls, the text and the ending that a client puts together from a stream."""
    calls: list[dict] = []
    text, finish = "", None
    for chunk in ask(client, stream=True, **more):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for delta in choice.delta.tool_calls or []:
                if delta.index == len(calls):
                    assert delta.id and delta.type == "function" and delta.function.name
                    calls.append({"name": delta.function.name, "arguments": "", "pieces": 0})
                calls[delta.index]["arguments"] += delta.function.arguments or ""
                calls[delta.index]["pieces"] += 1
    return calls, text, finish


@pytest.mark.parametrize("several", [False, True])
def test_calls_are_streamed_as_they_come(client, several):
    asked = {"tool_choice": "required", "seed": 3, "max_tokens": 300, **({"parallel_tool_calls": True} if several else {})}
    whole = ask(client, **asked).choices[0]
    calls, text, finish = streamed(client, **asked)
    assert (text, finish) == ("", "tool_calls")
    assert [(c["name"], c["arguments"]) for c in calls] == [(c.function.name, c.function.arguments) for c in whole.message.tool_calls]
    assert all(call["pieces"] > 3 for call in calls), "arguments come piece by piece"


def test_openais_own_accumulator_understands_the_stream(client):
    strict = [{**tool, "function": {**tool["function"], "strict": True}} for tool in TOOLS]
    asked = {"model": "smol", "messages": ASK, "tools": strict, "tool_choice": "required", "max_tokens": 120, "seed": 1}
    with client.chat.completions.stream(**asked) as stream:
        for _ in stream:
            pass
        message = stream.get_final_completion().choices[0].message
    check(message.tool_calls[0])


def said(text: str) -> dict:
    """Makes the model say exactly this."""
    return {"extra_body": {"grammar": f"root ::= {json.dumps(text)}"}}


CALL = '{"name": "get_time", "arguments": {"zone": "CET"}}'


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ("It is late.", "It is late.", 0),
        (f"<tool_call>\n{CALL}\n</tool_call>", None, 1),
        (f"Let me look.\n<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>", "Let me look.", 2),
        (CALL, None, 1),
        (f"[{CALL}, {CALL}]", None, 2),
        (f"<tool_call>{CALL}", None, 1),
        (f"<tool_call>{CALL}</tool_call>\n\n", None, 1),
        ('{"name": "get_time", "parameters": {"zone": "CET"}}', None, 1),
        ("<tool_call>nonsense</tool_call> and so on", "<tool_call>nonsense</tool_call> and so on", 0),
        ('{"name": "unknown", "arguments": {}}', '{"name": "unknown", "arguments": {}}', 0),
        ('{"names": ["a", "b"]}', '{"names": ["a", "b"]}', 0),
        ("a < b and <tool> is no call ", "a < b and <tool> is no call ", 0),
    ],
)
def test_calls_are_found_in_free_answers(client, text, content, calls):
    choice = ask(client, max_tokens=200, **said(text)).choices[0]
    assert choice.message.content == content
    assert choice.finish_reason == ("tool_calls" if calls else "stop")
    for call in choice.message.tool_calls or []:
        check(call)
    assert len(choice.message.tool_calls or []) == calls
    pieces, streamed_text, finish = streamed(client, max_tokens=200, **said(text))
    assert (streamed_text or None, finish) == (content, choice.finish_reason)
    assert [json.loads(piece["arguments"]) for piece in pieces] == [{"zone": "CET"}] * calls


def test_one_call_where_no_more_are_wanted(client):
    text = f"<tool_call>{CALL}</tool_call><tool_call>{CALL}</tool_call>"
    choice = ask(client, max_tokens=200, parallel_tool_calls=False, **said(text)).choices[0]
    assert len(choice.message.tool_calls) == 1 and choice.message.content is None


def test_none_means_text(client, server):
    choice = ask(client, tool_choice="none", max_tokens=200, **said(CALL)).choices[0]
    assert choice.message.content == CALL and not choice.message.tool_calls
    plain = server.call("POST", "/apply-template", {"messages": ASK}).json()["prompt"]
    assert server.call("POST", "/apply-template", {"messages": ASK, "tools": TOOLS, "tool_choice": "none"}).json()["prompt"] == plain


@pytest.mark.parametrize("seed", range(5))
def test_an_answer_by_schema_may_be_a_call_instead(client, seed):
    schema = {"type": "object", "properties": {"verdict": {"$ref": "#/$defs/v"}}, "required": ["verdict"], "additionalProperties": False, "$defs": {"v": {"enum": ["yes", "no"]}}}
    form = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema}}
    message = ask(client, response_format=form, seed=seed).choices[0].message
    if message.tool_calls:
        check(message.tool_calls[0])
    else:
        assert json.loads(message.content)["verdict"] in ("yes", "no")


def test_the_model_hears_of_tools_and_of_what_they_gave(server):
    talk = [
        *ASK,
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris", "unit": "celsius"}'}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees, light rain"},
    ]
    prompt = server.call("POST", "/apply-template", {"messages": talk, "tools": TOOLS}).json()["prompt"]
    told, called, gave = prompt.index("The weather at a place."), prompt.index('{"name": "get_weather", "arguments": {"city": "Paris"'), prompt.index("18 degrees, light rain")
    assert told < called < gave


def test_a_turn_after_a_call_is_cached(client):
    first = ask(client, tool_choice="required", seed=11)
    call = first.choices[0].message.tool_calls[0]
    talk = [*ASK, first.choices[0].message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "Rain."}]
    second = ask(client, talk, max_tokens=8)
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens - 1
    assert second.choices[0].message.content is not None


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tools": {}}, "tools"),
        ({"tools": ["x"]}, "tools[0]"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": 5}}]}, "tools[0].function.parameters"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "string"}}}]}, "tools[0].function.parameters.type"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1]"),
        ({"tools": [CLOCK] * 200}, "tools"),
        ({"tool_choice": "sometimes"}, "tool_choice"),
        ({"tool_choice": 5}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice.function.name"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "required", "extra_body": {"grammar": 'root ::= "x"'}}, "tool_choice"),
        ({"parallel_tool_calls": "yes"}, "parallel_tool_calls"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "patternProperties": {}}}}], "tool_choice": "required"}, "tools"),
        ({"messages": [*ASK, {"role": "tool", "content": "x"}]}, "messages[1].tool_call_id"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].function"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}]}, "messages[0].tool_calls[0].function.arguments"),
        ({"extra_body": {"functions": []}}, "functions"),
    ],
)
def test_what_is_wrong_with_tools_is_said(client, more, param):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, **more)
    assert refused.value.body["param"] == param, refused.value.body
