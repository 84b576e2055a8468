"""Token-faithful history: what the official clients send back gives the ids that the model wrote."""

from __future__ import annotations

import json

import pytest

import deepseek_recipe as recipe
from tests.decode.sdk_server import SdkServer
from tests.history.turns import ANSWERS, CONTENT, KEY, Conversation, options, output, unusual_ids

every_protocol = pytest.mark.parametrize("protocol", sorted(ANSWERS))
every_version = pytest.mark.parametrize("version", ["v4", "v4.1"])
both_forms = pytest.mark.parametrize("stream", [False, True], ids=["full", "streamed"])


def answered(protocol: str, version: str, server: SdkServer, *, stream: bool) -> tuple[Conversation, list[int]]:
    """A conversation whose next prompt is due, and all ids that a prefix cache holds."""
    conversation = Conversation(protocol, version)
    own = unusual_ids(output(version))
    server.prepared = conversation.prepared(own, options())
    cached = conversation.encoded().token_ids.tolist() + own
    ANSWERS[protocol](conversation, server, stream)
    return conversation, cached


@every_protocol
@every_version
@both_forms
def test_an_answer_comes_back_with_its_own_ids(protocol: str, version: str, stream: bool, server: SdkServer) -> None:
    conversation, cached = answered(protocol, version, server, stream=stream)
    with_key, without = conversation.encoded(options()), conversation.encoded()
    assert with_key.token_ids.tolist()[: len(cached)] == cached
    assert without.token_ids.tolist()[: len(cached)] != cached
    assert (with_key.prompt, with_key.special_ranges) == (without.prompt, without.special_ranges)
    foreign = conversation.encoded(options(b"another secret of tests"))
    assert foreign.token_ids.tolist() == without.token_ids.tolist()


@every_version
@pytest.mark.parametrize("thinking", [True, False])
def test_a_message_is_the_fold_of_its_stream(version: str, thinking: bool, server: SdkServer) -> None:
    said = []
    for stream in (False, True):
        conversation = Conversation("messages", version)
        conversation.request["thinking"] = {"type": "enabled" if thinking else "disabled", "budget_tokens": 1024}
        own = unusual_ids(output(version) if thinking else output(version).split("</think>")[1])
        server.prepared = conversation.prepared(own, options())
        cached = conversation.encoded().token_ids.tolist() + own
        ANSWERS["messages"](conversation, server, stream)
        said.append(conversation.request["messages"])
        assert conversation.encoded(options()).token_ids.tolist()[: len(cached)] == cached
    assert said[0] == said[1]
    kinds = [block["type"] for block in said[0][1]["content"]]
    assert kinds == ["thinking"] * thinking + ["text", "tool_use", "redacted_thinking"]


@every_protocol
def test_a_later_turn_keeps_the_ids_of_all_turns(protocol: str, server: SdkServer) -> None:
    conversation, cached = answered(protocol, "v4.1", server, stream=False)
    own = unusual_ids(output("v4.1"))
    second = conversation.encoded(options()).token_ids.tolist()
    # Call ids must differ from those of the first answer.
    decoder = conversation.encoded(options()).decoder(id="a-2", created=1, seed=b"another seed")
    decoder.push(own)
    decoder.finish("stop")
    server.prepared.response = decoder.response()
    ANSWERS[protocol](conversation, server, False)
    third = conversation.encoded(options()).token_ids.tolist()
    assert second[: len(cached)] == cached
    assert third[: len(second) + len(own)] == second + own


@every_protocol
def test_a_record_of_another_form_is_ignored(protocol: str, server: SdkServer) -> None:
    conversation, cached = answered(protocol, "v4.1", server, stream=False)
    text = json.dumps(conversation.request, ensure_ascii=False)
    assert "th2." in text
    conversation.request = json.loads(text.replace("th2.", "th1."))
    with_key, without = conversation.encoded(options()), conversation.encoded()
    assert with_key.token_ids.tolist() == without.token_ids.tolist() != cached


def test_a_bare_decoder_takes_a_key() -> None:
    parsing = recipe.Parsing(initial_stage="reasoning_start", parse_tool_calls=True)
    own = unusual_ids(output("v4"))
    messages = []
    for key in (KEY, None):
        decoder = recipe.Decoder(
            "chat_completions", parsing, id="a", model="m", created=0, seed=b"", tokenizer="v4", history_key=key
        )
        decoder.push(own)
        decoder.finish("stop")
        messages.append(json.loads(decoder.response())["choices"][0]["message"])
    record = messages[0].pop("token_history")
    assert messages[0] == messages[1]
    call = messages[0]["tool_calls"][0]["function"]
    said = messages[0] | {"tool_calls": [["id", call["name"], call["arguments"]]], "token_history": record}
    conversation = {"messages": [{"role": "user", "content": "x"}, said], "tools": [{"name": "look"}]}
    ids = recipe.encode_conversation(conversation, version="v4", options=options()).token_ids.tolist()
    assert any(ids[place : place + len(own)] == own for place in range(len(ids)))


@pytest.mark.parametrize("key", [b"", b"fifteen bytes!!"])
def test_a_short_key_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="history_key must be at least 16 bytes"):
        recipe.Options(history_key=key)


def test_any_value_of_the_field_is_accepted() -> None:
    values: list[object] = [None, 5, [], {}, "x", "th2.", "th2." + "A" * 100]
    for value in values:
        for key in (KEY, None):
            conversation = Conversation("chat_completions", "v4.1")
            conversation.say({"role": "assistant", "content": CONTENT, "token_history": value})
            ids = conversation.encoded(options(key)).token_ids.tolist()
            conversation.request["messages"][-1].pop("token_history")
            assert ids == conversation.encoded().token_ids.tolist()
