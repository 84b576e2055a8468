"""The Python face of encoding: what goes in, what comes out, what is refused."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

import deepseek_recipe as recipe

REQUEST: dict[str, Any] = {
    "model": "DeepSeek-V4.1-Flash",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "你好 world"}],
}


def test_text_bytes_and_dict_give_the_same_ids() -> None:
    text = json.dumps(REQUEST)
    forms = [recipe.encode(body, "chat_completions").token_ids.tolist() for body in (text, text.encode(), REQUEST)]
    assert forms[0] == forms[1] == forms[2]
    assert recipe.count_tokens(REQUEST, "chat_completions") == len(forms[0])


def test_ids_are_a_buffer_without_a_copy() -> None:
    ids = recipe.encode(REQUEST, "chat_completions").token_ids
    view = memoryview(ids)
    assert (view.format, view.itemsize, view.readonly, view.shape) == ("I", 4, True, (len(ids),))
    assert view.tolist() == list(ids) == ids.tolist()
    assert ids[-1] == view[-1]
    with pytest.raises(IndexError):
        ids[len(ids)]


def test_special_ranges_count_code_points() -> None:
    encoded = recipe.encode(REQUEST, "chat_completions")
    spelled = [encoded.prompt[start:end] for start, end in encoded.special_ranges]
    assert spelled[:2] == ["<｜begin▁of▁sentence｜>", "<｜System｜>"]
    assert spelled[-2:] == ["<｜Assistant｜>", "<think>"]


@pytest.mark.parametrize(
    ("change", "code", "param"),
    [
        ({"model": "gpt-9"}, "model_not_found", "model"),
        ({"model": 7}, "invalid_type", "model"),
        ({"messages": []}, "empty_array", "messages"),
        ({"messages": [{"role": "user"}]}, "missing_field", "messages[0].content"),
        ({"messages": [{"role": "wizard", "content": ""}]}, "unknown_value", "messages[0].role"),
        ({"max_tokens": -1}, "out_of_range", "max_tokens"),
        ({"temperature": 2.5}, "out_of_range", "temperature"),
        ({"stop": ["a", ""]}, "empty_string", "stop[1]"),
    ],
)
def test_refusals_name_the_field(change: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(recipe.RequestError) as caught:
        recipe.encode(REQUEST | change, "chat_completions")
    error = caught.value
    assert (error.code, error.param) == (code, param)
    assert 400 <= error.status_code < 500
    assert param in str(error)
    body = json.loads(error.body)["error"]
    assert (body["code"], body["param"], body["message"]) == (code, param, str(error))


def test_wrong_arguments_are_python_errors() -> None:
    with pytest.raises(ValueError, match="protocol must be"):
        recipe.encode(REQUEST, "smoke_signals")
    with pytest.raises(TypeError, match="body must be bytes, str or dict"):
        recipe.encode(3, "chat_completions")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="missing_reasoning must be"):
        recipe.Options(missing_reasoning="guess")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="nan"):
        recipe.encode(REQUEST | {"temperature": float("nan")}, "chat_completions")
    with pytest.raises(TypeError, match="keys of the body"):
        recipe.encode({1: 2}, "chat_completions")  # type: ignore[dict-item]


def test_a_dict_that_holds_itself_is_refused() -> None:
    body = dict(REQUEST)
    body["self"] = body
    with pytest.raises(ValueError, match="nested deeper"):
        recipe.encode(body, "chat_completions")


def test_models_are_an_option() -> None:
    options = recipe.Options(models={"house": "v4"})
    assert recipe.encode(REQUEST | {"model": "house"}, "chat_completions", options=options).model_version == "v4"
    with pytest.raises(recipe.RequestError, match="available: house"):
        recipe.encode(REQUEST, "chat_completions", options=options)


def test_threads_share_options() -> None:
    options = recipe.Options()
    expected = recipe.encode(REQUEST, "chat_completions", options=options).token_ids.tolist()
    found: list[list[int]] = []

    def work() -> None:
        for _ in range(20):
            found.append(recipe.encode(REQUEST, "chat_completions", options=options).token_ids.tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 80
