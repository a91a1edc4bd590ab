"""The Responses API, with OpenAI's own client."""

from __future__ import annotations

import json

import openai
import pytest

ASK = "Tell me the capital of France."
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather at a place.",
    "strict": True,
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["celsius", "fahrenheit"]}}, "required": ["city", "unit"], "additionalProperties": False},
}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 30}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def ask(client, asked=ASK, **more):
    return client.responses.create(**{"model": "smol", "input": asked, "temperature": 0, "max_output_tokens": 24, **more})


def test_a_text_is_answered(client):
    answer = ask(client)
    assert "Paris" in answer.output_text
    assert (answer.status, answer.error, answer.object) == ("completed", None, "response")
    (item,) = answer.output
    assert (item.type, item.role, item.status) == ("message", "assistant", "completed")
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens
    again = ask(client)
    assert again.output_text == answer.output_text
    assert again.usage.input_tokens_details.cached_tokens == answer.usage.input_tokens - 1


def test_it_is_what_chat_says(client):
    chat = client.chat.completions.create(model="smol", temperature=0, max_tokens=24, messages=[{"role": "system", "content": "You are brief."}, {"role": "user", "content": ASK}])
    said = ask(client, instructions="You are brief.")
    assert said.output_text == chat.choices[0].message.content
    assert said.usage.input_tokens == chat.usage.prompt_tokens
    listed = [{"role": "developer", "content": "You are brief."}, {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ASK}]}]
    assert ask(client, listed).output_text == said.output_text


def test_too_long_an_answer_is_incomplete(client):
    answer = ask(client, "Tell me a long story.", max_output_tokens=4)
    assert answer.status == "incomplete" and answer.incomplete_details.reason == "max_output_tokens"
    assert answer.usage.output_tokens == 4
    events = list(ask(client, "Tell me a long story.", max_output_tokens=4, stream=True))
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.output_text == answer.output_text


def test_events_come_in_order(client):
    whole = ask(client)
    events = list(ask(client, stream=True))
    kinds = [event.type for event in events]
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * len(deltas),
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert len(deltas) > 2 and "".join(event.delta for event in deltas) == whole.output_text
    last = events[-1].response
    assert last.output_text == whole.output_text
    assert last.usage.output_tokens == whole.usage.output_tokens
    assert {event.item_id for event in deltas} == {last.output[0].id}
    assert last.id == events[0].response.id


def test_openais_own_accumulator_understands_the_stream(client):
    with client.responses.stream(model="smol", input=ASK, temperature=0, max_output_tokens=24) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert stream.get_final_response().output_text == text


@pytest.mark.parametrize("seed", range(10))
def test_schemas_are_followed(client, seed):
    form = {"format": {"type": "json_schema", "name": "person", "schema": SCHEMA, "strict": True}}
    made = json.loads(ask(client, "Invent a person.", text=form, temperature=1, max_output_tokens=100, extra_body={"seed": seed}).output_text)
    assert set(made) == {"name", "age"} and 0 <= made["age"] <= 120


def test_json_mode(client):
    said = ask(client, "Give me JSON.", text={"format": {"type": "json_object"}}, temperature=1, max_output_tokens=100, extra_body={"seed": 1})
    assert isinstance(json.loads(said.output_text), dict)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
@pytest.mark.parametrize("seed", range(5))
def test_functions_are_called(client, choice, seed):
    answer = ask(client, "How is Paris?", tools=[WEATHER], tool_choice=choice, temperature=1, max_output_tokens=100, extra_body={"seed": seed})
    (call,) = answer.output
    assert (call.type, call.name, call.status) == ("function_call", "get_weather", "completed")
    arguments = json.loads(call.arguments)
    assert set(arguments) == {"city", "unit"} and arguments["unit"] in ("celsius", "fahrenheit")
    assert call.call_id and call.call_id != call.id


def test_calls_are_streamed(client):
    asked = {"tools": [WEATHER], "tool_choice": "required", "temperature": 1, "max_output_tokens": 100, "extra_body": {"seed": 4}}
    whole = ask(client, "How is Paris?", **asked)
    events = list(ask(client, "How is Paris?", stream=True, **asked))
    deltas = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    kinds = [event.type for event in events]
    assert kinds[2] == "response.output_item.added" and kinds[-3:] == ["response.function_call_arguments.done", "response.output_item.done", "response.completed"]
    assert len(deltas) > 3 and "".join(deltas) == whole.output[0].arguments == events[-3].arguments
    with client.responses.stream(model="smol", input="How is Paris?", **asked) as stream:
        assert stream.until_done().get_final_response().output[0].arguments == whole.output[0].arguments


def test_what_a_function_gave_goes_on(client):
    asked = {"tools": [WEATHER], "max_output_tokens": 100}
    first = ask(client, "How is Paris?", tool_choice="required", **asked)
    call = first.output[0]
    talk = [{"role": "user", "content": "How is Paris?"}, call.model_dump(), {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}]
    second = ask(client, talk, **asked)
    assert second.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens - 1


def test_text_and_then_a_call(client):
    grammar = 'root ::= "Let me look. <tool_call>{\\"name\\": \\"get_weather\\", \\"arguments\\": {\\"city\\": \\"Rome\\"}}</tool_call>"'
    asked = {"tools": [WEATHER], "max_output_tokens": 100, "extra_body": {"grammar": grammar}}
    for answer in (ask(client, **asked), list(ask(client, stream=True, **asked))[-1].response):
        assert [item.type for item in answer.output] == ["message", "function_call"]
        assert answer.output_text == "Let me look." and json.loads(answer.output[1].arguments) == {"city": "Rome"}


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
        ({"input": 5}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"role": "king", "content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
        ({"text": {"format": {"type": "json_schema", "schema": {"type": "object", "if": {}}}}}, "text.format.schema"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "name": ""}]}, "tools[0].name"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "other"}}, "tool_choice.name"),
        ({"temperature": -1}, "temperature"),
    ],
)
def test_bad_fields_are_named(client, more, param):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, **more)
    assert refused.value.body["param"] == param, refused.value.body
    assert refused.value.body["type"] == "invalid_request_error"


def test_input_is_needed(server):
    reply = server.call("POST", "/v1/responses", {"model": "smol"})
    assert reply.status == 400 and reply.json()["error"]["param"] == "input"
