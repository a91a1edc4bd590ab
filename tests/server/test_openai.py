"""OpenAI's own client, unchanged."""

from __future__ import annotations

import json
import math

import openai
import pytest

ASK = [{"role": "user", "content": "Tell me the capital of France."}]
GREEDY = {"model": "smol", "temperature": 0}


def chat(client, messages=ASK, **more):
    return client.chat.completions.create(messages=messages, **{**GREEDY, "max_tokens": 24, **more})


def test_models(client):
    listed = client.models.list().data
    assert [model.id for model in listed] == ["smol"]


def test_an_answer_counts_what_it_took(client):
    answer = chat(client)
    assert "Paris" in answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    usage = answer.usage
    assert usage.prompt_tokens > 10
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert answer.timings["prompt_n"] + answer.timings["cache_n"] == usage.prompt_tokens
    assert answer.timings["predicted_n"] == usage.completion_tokens


@pytest.mark.parametrize("question", ["Name three rivers.", "Écris 'ça va' et 你好 avec des émojis 🎉🎈."])
@pytest.mark.parametrize("more", [{}, {"temperature": 0.9, "seed": 7}])
def test_streamed_as_in_one_piece(client, question, more):
    messages = [{"role": "user", "content": question}]
    whole = chat(client, messages, max_tokens=48, **more)
    pieces, usage, finish = "", None, None
    for chunk in chat(client, messages, max_tokens=48, stream=True, stream_options={"include_usage": True}, **more):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            pieces += choice.delta.content or ""
            finish = choice.finish_reason or finish
    assert pieces == whole.choices[0].message.content
    assert finish == whole.choices[0].finish_reason
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert "�" not in pieces[:-1], "half a character waits for the other; only the end may cut one"


def test_the_second_turn_is_cached(client):
    first = chat(client, [{"role": "user", "content": "Tell me about the sea, in two sentences."}])
    said = first.choices[0].message.content
    talk = [
        {"role": "user", "content": "Tell me about the sea, in two sentences."},
        {"role": "assistant", "content": said},
        {"role": "user", "content": "And the mountains?"},
    ]
    second = chat(client, talk)
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert cached >= first.usage.prompt_tokens - 1
    assert second.timings["cache_n"] == cached


def test_choices_and_seeds(client):
    several = chat(client, n=3, temperature=1.0, seed=5, max_tokens=16)
    assert [choice.index for choice in several.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in several.choices}) > 1
    again = chat(client, n=3, temperature=1.0, seed=5, max_tokens=16)
    assert [c.message.content for c in several.choices] == [c.message.content for c in again.choices]


def test_stop_strings(client):
    answer = client.completions.create(prompt="One, two, three, four,", max_tokens=32, stop=["six"], **GREEDY)
    assert "six" not in answer.choices[0].text
    assert answer.choices[0].finish_reason == "stop"
    assert chat(client, max_tokens=3).choices[0].finish_reason == "length"


def test_log_probabilities(client):
    answer = chat(client, logprobs=True, top_logprobs=3, max_tokens=5)
    tokens = answer.choices[0].logprobs.content
    assert "".join(token.token for token in tokens) == answer.choices[0].message.content
    for token in tokens:
        assert token.logprob <= 0
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].token == token.token, "greedy takes the likeliest"
        assert bytes(token.bytes).decode() == token.token


def test_logit_bias_forbids(client, server):
    import urllib.request

    plain = client.completions.create(prompt="The capital of France is", max_tokens=1, **GREEDY)
    body = json.dumps({"content": plain.choices[0].text}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{server.url}/tokenize", body)) as reply:
        (token,) = json.load(reply)["tokens"]
    other = client.completions.create(prompt="The capital of France is", max_tokens=1, logit_bias={str(token): -100}, **GREEDY)
    assert other.choices[0].text != plain.choices[0].text


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3}},
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("seed", range(20))
def test_schemas_are_followed(client, seed):
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
    ask = [{"role": "user", "content": "Invent a person as JSON."}]
    answer = chat(client, ask, temperature=1.0, seed=seed, max_tokens=200, response_format=form)
    made = json.loads(answer.choices[0].message.content)
    assert set(made) == {"name", "age", "tags"}
    assert isinstance(made["name"], str) and isinstance(made["age"], int) and len(made["tags"]) <= 3


def test_json_mode(client):
    answer = chat(client, [{"role": "user", "content": "Give me JSON."}], temperature=1.0, seed=1, max_tokens=100, response_format={"type": "json_object"})
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


def test_completions_of_several_prompts(client):
    answer = client.completions.create(prompt=["The sky is", "Snow is"], n=2, max_tokens=4, **GREEDY)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert answer.choices[0].text == answer.choices[1].text
    alone = client.completions.create(prompt="Snow is", max_tokens=4, **GREEDY)
    assert alone.choices[0].text == answer.choices[2].text
    echoed = client.completions.create(prompt="Snow is", max_tokens=4, echo=True, **GREEDY)
    assert echoed.choices[0].text == "Snow is" + alone.choices[0].text


def test_embeddings(client):
    texts = ["The cat sat on the mat.", "A cat was sitting on a rug.", "Interest rates rose in March."]
    coded = client.embeddings.create(model="smol", input=texts).data  # the client asks for base64 by itself
    plain = client.embeddings.create(model="smol", input=texts, encoding_format="float").data
    for a, b in zip(coded, plain):
        assert a.embedding == pytest.approx(b.embedding, abs=1e-6)
        assert math.isclose(sum(x * x for x in a.embedding), 1, abs_tol=1e-3)
    near = sum(x * y for x, y in zip(coded[0].embedding, coded[1].embedding))
    far = sum(x * y for x, y in zip(coded[0].embedding, coded[2].embedding))
    assert near > far


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"n": 10_000}, "n"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"stop": [""]}, "stop"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
    ],
)
def test_bad_fields_are_named(client, more, param):
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**{**GREEDY, "messages": ASK, **more})
    assert refused.value.body["param"] == param
    assert refused.value.body["type"] == "invalid_request_error"


def test_an_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as refused:
        chat(client, model="other")
    assert refused.value.body["code"] == "model_not_found"


def test_a_prompt_beyond_the_context_is_refused(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(prompt=[1] * 9000, max_tokens=4, **GREEDY)
    assert "8192" in refused.value.body["message"] or "8,192" in refused.value.body["message"]
