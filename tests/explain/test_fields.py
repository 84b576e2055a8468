"""Which field a token comes from, request by request: what the codec only copies, and what it composes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import deepseek_recipe as recipe
from tests.explain.support import tiling_fault

V4, V41 = "DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def fields(body: dict[str, Any], protocol: str, **options: Any) -> list[tuple[str, str]]:
    """The fields of a request and their texts, white space at the ends left out."""
    spans = recipe.explain(body, protocol, options=recipe.Options(**options))
    return [(span.path, span.text.strip()) for span in spans if span.path is not None]


def chat(*messages: dict[str, Any], model: str = V41, **members: Any) -> dict[str, Any]:
    """A Chat Completions request without thinking."""
    return {"model": model, "messages": list(messages), "thinking": {"type": "disabled"}} | members


@pytest.mark.parametrize("model", [V4, V41])
def test_a_short_chat(model: str) -> None:
    body = chat({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}, model=model)
    spans = recipe.explain(body, "chat_completions")
    system = ["<｜System｜>"] if model == V41 else []
    assert [(span.path, span.text) for span in spans] == [
        (None, "<｜begin▁of▁sentence｜>" + "".join(system)),
        ("messages[0].content", "Be brief."),
        (None, "<｜User｜>"),
        ("messages[1].content", "Hello"),
        (None, "<｜Assistant｜>"),
        ("thinking", "</think>"),
    ]


@pytest.mark.parametrize("model", [V4, V41])
def test_a_call_and_its_result_in_chat(model: str) -> None:
    function = {"name": "get_weather", "arguments": '{"city": "Par\\u0069s", "days": 2}'}
    body = chat(
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": "Let me look",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees"},
        model=model,
    )
    call = "messages[1].tool_calls[0].function"
    assert fields(body, "chat_completions")[1:-1] == [
        ("messages[1].content", "Let me look"),
        (f"{call}.name", "get_weather"),
        (f"{call}.arguments", "city"),
        (f"{call}.arguments", "Paris"),
        (f"{call}.arguments", "days"),
        (f"{call}.arguments", "2"),
        ("messages[2].content", "18 degrees"),
    ]


def test_a_call_and_its_result_in_responses() -> None:
    body = {
        "model": V41,
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "I must look."}]},
            {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": '{"city": "Paris"}'},
            {"type": "function_call_output", "call_id": "c", "output": "18 degrees"},
        ],
        "tools": [{"type": "function", "name": "get_weather", "parameters": SCHEMA}],
        "reasoning": {"effort": "high"},
    }
    found = [field for field in fields(body, "responses") if not field[0].startswith("tools")]
    assert found[0][0] == "reasoning.effort" and found[0][1].startswith("Reasoning Effort: 75")
    assert found[1:] == [
        ("instructions", "Be brief."),
        ("input[0].content[0].text", "Weather?"),
        ("input[1].content[0].text", "I must look."),
        ("input[2].name", "get_weather"),
        ("input[2].arguments", "city"),
        ("input[2].arguments", "Paris"),
        ("input[3].output", "18 degrees"),
        ("reasoning.effort", "<think>"),
    ]


def test_a_call_and_its_result_in_messages() -> None:
    use = {"type": "tool_use", "id": "t", "name": "get_weather", "input": {"city": "Paris", "at home": [True, None]}}
    body = {
        "model": V41,
        "max_tokens": 10,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Look.", "signature": "s"}, use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "18 degrees"}]},
        ],
        "tools": [{"name": "get_weather", "input_schema": SCHEMA}],
        "output_config": {"effort": "max"},
    }
    found = [field for field in fields(body, "messages") if not field[0].startswith("tools")]
    assert found[0][0] == "output_config.effort" and found[0][1].startswith("Reasoning Effort: 100")
    assert found[1:] == [
        ("system[0].text", "Be brief."),
        ("messages[0].content", "Weather?"),
        ("messages[1].content[0].thinking", "Look."),
        ("messages[1].content[1].name", "get_weather"),
        ("messages[1].content[1].input.city", "city"),
        ("messages[1].content[1].input.city", "Paris"),
        ('messages[1].content[1].input["at home"]', "at home"),
        ('messages[1].content[1].input["at home"]', "[true, null]"),
        ("messages[2].content[0].content", "18 degrees"),
        ("output_config.effort", "<think>"),
    ]


def test_every_word_of_a_schema_has_its_field() -> None:
    tool = {"name": "f", "description": "Finds", "parameters": SCHEMA | {"required": ["city"], "strict": False}}
    body = chat({"role": "user", "content": "Hi"}, tools=[{"type": "function", "function": tool}])
    found = dict(fields(body, "chat_completions"))
    inside = "tools[0].function.parameters"
    assert found["tools[0].function.name"] == 'f",'
    assert found["tools[0].function.description"] == 'Finds",'
    assert found[f"{inside}.properties.city.type"].startswith('type": "string"')
    assert found[f"{inside}.required"].startswith('required": ["')
    assert found[f"{inside}.required[0]"].startswith("city")
    assert found[f"{inside}.strict"].startswith('strict": false')
    assert found["tools"].startswith("You MUST strictly follow")


def test_tools_of_which_no_word_is_the_clients() -> None:
    tools = [
        {"type": "custom", "name": "apply_patch"},
        {"type": "namespace", "name": "fs", "description": "Files", "tools": [{"type": "function", "name": "read"}]},
    ]
    found = dict(fields({"model": V41, "input": "Hi", "tools": tools}, "responses"))
    assert "*** Begin Patch" in found["tools[0]"]
    assert found["tools[1].tools[0]"] == '{"name": "fs::read", "description": "Files\\n", "parameters": {}}'


def test_a_response_format() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    found = dict(fields(chat({"role": "user", "content": "Hi"}, response_format=schema), "chat_completions"))
    assert found["response_format"].startswith(("## Response Format", '"'))
    assert found["response_format.json_schema.schema.properties.city.type"].startswith('type": "string"')


def test_an_image_and_text_in_its_place() -> None:
    url = "https://example.com/a.png"
    parts = [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": url}}]
    body = chat({"role": "user", "content": parts})
    assert ("messages[0].content[1].image_url.url", "<｜deepseek_image｜>") in fields(body, "chat_completions")
    body = chat({"role": "user", "content": parts}, model=V4)
    assert ("messages[0].content", "[Unsupported Image]") in fields(body, "chat_completions")


def test_what_was_cut_or_joined_keeps_its_field() -> None:
    billed = {"role": "system", "content": "x-anthropic-billing-header: 1\nBe brief."}
    found = fields(chat(billed, {"role": "user", "content": "Hi"}), "chat_completions")
    assert ("messages[0].content", "Be brief.") in found
    blocks = [{"type": "thinking", "thinking": text, "signature": ""} for text in ("One.", "Two.")]
    turn = {"role": "assistant", "content": [*blocks, {"type": "text", "text": "Three."}]}
    body = {"model": V41, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}, turn]}
    found = fields(body, "messages")
    assert ("messages[1].content", "One.\n\nTwo.") in found and ("messages[1].content[2].text", "Three.") in found


def test_a_token_of_two_fields_is_the_first_ones() -> None:
    """The line feeds between two texts are one token with the end of the first."""
    parts = [{"type": "text", "text": "Hello."}, {"type": "text", "text": "World"}]
    found = recipe.explain(chat({"role": "user", "content": parts}), "chat_completions")
    assert [(span.path, span.text) for span in found if span.path and "content" in span.path] == [
        ("messages[0].content[0].text", "Hello.\n\n"),
        ("messages[0].content[1].text", "World"),
    ]


def test_a_character_cut_by_tokens_is_shown_once() -> None:
    body = chat({"role": "user", "content": "𓀀𓀁🏴‍☠️ ﷽"})
    assert "".join(text for path, text in fields(body, "chat_completions") if path != "thinking") == "𓀀𓀁🏴‍☠️ ﷽"


def test_text_in_place_of_an_image_belongs_to_the_list_that_it_stands_in() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "Seen:"}, image]}
    use = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
    body = {
        "model": V4,
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "Look"},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ],
    }
    found = fields(body, "messages")
    assert ("messages[2].content[0].content", "[Unsupported Image]") in found
    result["content"] = [image]
    assert ("messages[2].content[0].content", ">[Unsupported Image]") in fields(body, "messages")


def test_a_mark_that_the_model_itself_wrote_is_its_contents() -> None:
    said = "See <｜ref｜>cat<｜/ref｜> there"
    parts = [{"type": "text", "text": text} for text in ("Look.", said)]
    body = chat(
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": parts}, {"role": "user", "content": "?"}
    )
    assert ("messages[1].content[1].text", said) in fields(body, "chat_completions")


@pytest.mark.parametrize("newlines", ["", "\n\n"])
def test_recorded_ids_have_the_fields_of_their_text(newlines: str) -> None:
    options = recipe.Options(history_key=b"a secret of tests")
    body = chat({"role": "user", "content": "Hi"})
    tokenizer = recipe.Tokenizer.built_in("v4.1")
    lead, written = tokenizer.encode(newlines), tokenizer.encode("Unbel") + tokenizer.encode("ievable!")
    encoded = recipe.encode(body, "chat_completions", options=options)
    decoder = encoded.decoder(id="a", created=0, seed=b"any bytes")
    decoder.push(lead + written)
    decoder.finish("stop")
    body["messages"] += [json.loads(decoder.response())["choices"][0]["message"], {"role": "user", "content": "Thanks"}]
    spans = recipe.explain(body, "chat_completions", options=options)
    encoded = recipe.encode(body, "chat_completions", options=options)
    assert tiling_fault(spans, encoded) is None
    ids = encoded.token_ids.tolist()
    assert any(ids[place : place + len(lead + written)] == lead + written for place in range(len(ids)))
    answer = next(span for span in spans if span.path == "messages[1].content")
    assert answer.text == "Unbelievable!" and answer.end - answer.start == len(written)


def pushed(body: dict[str, Any], protocol: str, own: list[int], options: recipe.Options) -> Any:
    """The response to a request whose answer has these ids."""
    decoder = recipe.encode(body, protocol, options=options).decoder(id="a", created=0, seed=b"any bytes")
    decoder.push(own)
    decoder.finish("stop")
    return json.loads(decoder.response())


TAGS = (
    "</think>I look.\n\n",
    "<｜DSML｜ calls>",
    '<｜DSML｜ invoke name="look">',
    "</｜DSML｜ invoke>",
    "</｜DSML｜ calls>",
)


@pytest.mark.parametrize("protocol", ["chat_completions", "messages"])
@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ('"false">[1,2,{"k":"v"}]', '[1, 2, {"k": "v"}]'),
        ('"false">[ 1, 2.50 ]', "[1, 2.5]"),
        ('"false">"caf\\u00e9 au lait"', "café au lait"),
        ('"false">\n1e3 ', "1000.0"),
        ('"true">the garden', "the garden"),
    ],
)
def test_recorded_ids_that_spell_a_value_otherwise_have_its_field(protocol: str, written: str, printed: str) -> None:
    options = recipe.Options(history_key=b"a secret of tests")
    tokenizer = recipe.Tokenizer.built_in("v4.1")
    key = "parameters" if protocol == "chat_completions" else "input_schema"
    tool = {"name": "look", key: SCHEMA}
    body = chat({"role": "user", "content": "Hi"})
    body["tools"] = [{"type": "function", "function": tool} if protocol == "chat_completions" else tool]
    body |= {"max_tokens": 9} if protocol == "messages" else {}
    lead, opens, invoke, ends, closes = TAGS
    parameter = f'<｜DSML｜ parameter name="at" string={written}</｜DSML｜ parameter>'
    text = f"{lead}{opens} {invoke}{parameter}\n\n{ends}{closes}".removeprefix("</think>")
    own = tokenizer.encode(text, special=True)
    response = pushed(body, protocol, own, options)
    if protocol == "chat_completions":
        said = response["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "a cat"}
        field = "messages[1].tool_calls[0].function.arguments"
    else:
        said = {"role": "assistant", "content": response["content"]}
        block = {"type": "tool_result", "tool_use_id": said["content"][1]["id"], "content": "a cat"}
        result, field = {"role": "user", "content": [block]}, "messages[1].content[1].input.at"
    body["messages"] += [said, result]
    encoded = recipe.encode(body, protocol, options=options)
    spans = recipe.explain(body, protocol, options=options)
    assert tiling_fault(spans, encoded) is None
    ids = encoded.token_ids.tolist()
    start = next(place for place in range(len(ids)) if ids[place : place + len(own)] == own)
    value = [span for span in spans if span.path == field and start <= span.start < start + len(own)][-1]
    assert value.text.strip('"></') == printed
    assert written.partition(">")[2].strip('"\n ')[1:-1] in tokenizer.decode(ids[value.start : value.end])
    assert next(span.path for span in spans if span.end > start + len(own)) is None


def test_text_after_calls_is_the_contents_where_the_model_wrote_it() -> None:
    options = recipe.Options(history_key=b"a secret of tests")
    tokenizer = recipe.Tokenizer.built_in("v4.1")
    body = chat({"role": "user", "content": "Hi"}, tools=[{"type": "function", "function": {"name": "look"}}])
    lead, opens, invoke, ends, closes = TAGS
    text = f"{lead}{opens}\n{invoke}\n\n{ends}\n{closes}\nOver there.".removeprefix("</think>")
    own = tokenizer.encode(text, special=True)
    said = pushed(body, "chat_completions", own, options)["choices"][0]["message"]
    body["messages"] += [said, {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "a cat"}]
    encoded = recipe.encode(body, "chat_completions", options=options)
    spans = recipe.explain(body, "chat_completions", options=options)
    assert tiling_fault(spans, encoded) is None
    ids = encoded.token_ids.tolist()
    start = next(place for place in range(len(ids)) if ids[place : place + len(own)] == own)
    for word in (" look", " there"):
        place = next(place for place in range(start, start + len(own)) if word in tokenizer.decode([ids[place]]))
        owner = next(span.path for span in spans if span.start <= place < span.end)
        assert owner == "messages[1].content"
