"""What text completions offer to gateways: ids everywhere, the cost from the start on, whole grammars."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import httpx
import msgspec
import pytest

import deepseek_recipe as recipe
from tests.e2e.server_process import ServerProcess

PATH = "/v1/completions"
TOKENIZER = recipe.Tokenizer.built_in("v4.1")
END = recipe.eos_token_id("v4.1")


def special(spelling: str) -> int:
    found = TOKENIZER.special_id(spelling)
    assert found is not None
    return found


THINK_END = special("</think>")


def body_of(**fields: Any) -> dict[str, Any]:
    return {"model": "deepinfer-tiny", "prompt": [5, 6, 7], "max_tokens": 30, "return_token_ids": True, **fields}


def post(server: ServerProcess, **fields: Any) -> dict[str, Any]:
    answer = server.http.post(PATH, json=body_of(**fields), timeout=60)
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()
    return content


def chunks(server: ServerProcess, **fields: Any) -> list[dict[str, Any]]:
    text = server.http.post(PATH, json=body_of(stream=True, **fields), timeout=60).text
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


def test_further_tokens_may_end_an_answer(native: ServerProcess) -> None:
    ids = post(native, temperature=0)["choices"][0]["token_ids"]
    stop = ids[4]
    choice = post(native, temperature=0, stop_token_ids=[stop])["choices"][0]
    assert choice["token_ids"] == ids[: ids.index(stop) + 1]
    assert choice["finish_reason"] == "stop"


def test_a_prompt_may_be_packed(native: ServerProcess) -> None:
    packed = base64.b64encode(struct.pack("<3I", 5, 6, 7)).decode()
    listed = post(native, temperature=0)["choices"]
    assert post(native, temperature=0, prompt=None, prompt_ids=packed)["choices"] == listed
    huge = base64.b64encode(struct.pack("<I", 2**32 - 1)).decode()
    for fields, code, param in (
        ({"prompt": None}, "invalid_type", "prompt"),
        ({"prompt_ids": packed}, "unsupported", "prompt_ids"),
        ({"prompt": None, "prompt_ids": ""}, "empty_array", "prompt_ids"),
        ({"prompt": None, "prompt_ids": packed[:4]}, "invalid_type", "prompt_ids"),
        ({"prompt": None, "prompt_ids": "no base64!"}, "invalid_type", "prompt_ids"),
        ({"prompt": None, "prompt_ids": huge}, "invalid_token_id", "prompt_ids"),
        ({"prompt": None, "prompt_ids": packed, "suffix": "x"}, "requires", "suffix"),
    ):
        response = native.http.post("/v1/completions", json=body_of(**fields))
        error = response.json()["error"]
        assert (response.status_code, error["code"], error["param"]) == (400, code, param)


def packed_post(server: ServerProcess, content: bytes, path: str = PATH) -> httpx.Response:
    return server.http.post(path, content=content, headers={"content-type": "application/msgpack"}, timeout=60)


def test_a_body_may_be_messagepack(native: ServerProcess) -> None:
    members = body_of(temperature=0, prompt=None, prompt_ids=struct.pack("<3I", 5, 6, 7), logit_bias={9: -1.5})
    answer = packed_post(native, msgspec.msgpack.encode(members))
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"] == post(native, temperature=0, logit_bias={"9": -1.5})["choices"]
    # What a body is shows in its first byte.
    assert packed_post(native, json.dumps(body_of()).encode()).status_code == 200


@pytest.mark.parametrize(
    ("content", "code", "param"),
    [
        (b"", "invalid_json", None),
        (b"\x80", "invalid_type", None),
        (b"\xc1", "invalid_messagepack", None),
        (b"\x81\xa5model", "invalid_messagepack", None),
        (b"\x81\xa5model\xa1\xff", "invalid_messagepack", None),
        (b"\x81\xa5model\xdb\xff\xff\xff\xffa", "invalid_messagepack", None),
        (b"\xdf\xff\xff\xff\xff", "invalid_messagepack", None),
        (b"\x81\xa1x" + b"\x91" * 100_000 + b"\xc0", "nesting_too_deep", None),
        (msgspec.msgpack.encode(body_of()) + b"\x00", "invalid_messagepack", None),
        (msgspec.msgpack.encode(body_of(model=b"deepinfer-tiny")), "invalid_type", "model"),
        (msgspec.msgpack.encode(body_of(max_tokens=2**63)), "out_of_range", "max_tokens"),
        (msgspec.msgpack.encode(body_of(logit_bias={"nine": 1})), "invalid_type", "logit_bias"),
        (msgspec.msgpack.encode(body_of(temperature=float("nan"))), "out_of_range", "temperature"),
        (msgspec.msgpack.encode([body_of()]), "invalid_type", None),
    ],
)
def test_a_body_of_messagepack_that_cannot_be_read_is_refused(
    native: ServerProcess, content: bytes, code: str, param: str | None
) -> None:
    answer = packed_post(native, content)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, code, param), error


def test_a_key_at_fault_is_named_in_json_too(native: ServerProcess) -> None:
    answer = native.http.post(PATH, json=body_of(logit_bias={"nine": 1}))
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "logit_bias")


def test_other_paths_take_no_messagepack(native: ServerProcess) -> None:
    for path in ("/v1/chat/completions", "/v1/messages", "/tokenize"):
        assert packed_post(native, b"\x80", path).status_code == 415


def test_the_prompts_ids_may_be_left_out(native: ServerProcess) -> None:
    for fields, given in (({}, [5, 6, 7]), ({"return_prompt_token_ids": False}, None)):
        (whole,) = post(native, temperature=0, **fields)["choices"]
        first, *rest = [chunk["choices"][0] for chunk in chunks(native, temperature=0, **fields) if chunk["choices"]]
        assert whole.get("prompt_token_ids") == first.get("prompt_token_ids") == given
        assert all("prompt_token_ids" not in choice for choice in rest)
        assert [id for choice in (first, *rest) for id in choice["token_ids"]] == whole["token_ids"]


def test_every_token_has_its_log_probability_control_tokens_too(native: ServerProcess) -> None:
    fields = {"temperature": 0, "logprobs": 2, "return_tokens_as_token_ids": True, "logit_bias": {str(THINK_END): 100}}
    choice = post(native, max_tokens=3, **fields)["choices"][0]
    assert choice["token_ids"] == [THINK_END] * 3
    assert choice["logprobs"]["tokens"] == [f"token_id:{THINK_END}"] * 3
    assert all(
        len(top) == 2 and all(name.startswith("token_id:") for name in top)
        for top in choice["logprobs"]["top_logprobs"]
    )
    streamed = chunks(native, max_tokens=3, **fields)
    parts = [part["choices"][0]["logprobs"] for part in streamed if part["choices"]]
    assert [value for part in parts for value in part["token_logprobs"]] == choice["logprobs"]["token_logprobs"]


def test_the_cost_so_far_stands_in_every_chunk(scripted: ServerProcess) -> None:
    options = {"continuous_usage_stats": True}
    parts = chunks(scripted, prompt="Say it in emoji", stream_options=options)
    parts = chunks(scripted, prompt="Say it in emoji", stream_options=options)
    counts = [part["usage"]["completion_tokens"] for part in parts]
    assert counts == sorted(counts) and counts[-1] > counts[0] > 0
    assert {part["usage"]["prompt_tokens_details"]["cached_tokens"] for part in parts} == {
        parts[0]["usage"]["prompt_tokens"] - 1
    }


def test_a_whole_grammar_and_a_limit_of_thinking(native: ServerProcess) -> None:
    grammar = {"text": "start: /[0-9]{3}/", "start_after": THINK_END}
    limit = {"tokens": 4, "end_token_id": THINK_END}
    choice = post(native, grammar=grammar, thinking_limit=limit, seed=5)["choices"][0]
    ids = choice["token_ids"]
    place = ids.index(THINK_END)
    assert place <= 4
    assert TOKENIZER.decode(ids[place + 1 : -1]).isdigit() and ids[-1] == END


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"grammar": {}}, "invalid_type"),
        ({"grammar": {"text": 5}}, "invalid_type"),
        ({"grammar": "start: x"}, "invalid_type"),
        ({"grammar": {"text": "start: missing", "field": "tools"}}, "invalid_grammar"),
        ({"grammar": {"text": "start: /a/", "trigger": 2**40}}, "invalid_token_id"),
        ({"thinking_limit": {"tokens": -1, "end_token_id": 5}}, "invalid_thinking_limit"),
        ({"thinking_limit": {"tokens": 1, "end_token_id": -5}}, "invalid_token_id"),
        ({"stop_token_ids": [-1]}, "invalid_token_id"),
        ({"stop_token_ids": list(range(65))}, "array_too_long"),
        ({"stop_token_ids": "x"}, "invalid_type"),
    ],
)
def test_faults_are_named(native: ServerProcess, fields: dict[str, Any], code: str) -> None:
    answer = native.http.post(PATH, json=body_of(**fields))
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["code"] == code, answer.text
