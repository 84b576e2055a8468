"""The paths besides generation: DeepSeek's own forms, models, tokens, probes, the API's description."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import jsonschema
import openai
import pytest

import deepseek_recipe as recipe
from tests.e2e.conftest import StartServer
from tests.e2e.server_process import ServerProcess, chat_body

MODEL = "deepinfer-tiny"
TOKENIZER = recipe.Tokenizer.built_in("v4.1")
MESSAGES = chat_body("Hello", max_tokens=100)
RESPONSES = {"model": MODEL, "input": "Hello"}


@pytest.mark.parametrize(
    ("path", "body", "member"),
    [
        ("/chat/completions", chat_body("Hello"), "choices"),
        ("/beta/chat/completions", chat_body("Hello"), "choices"),
        ("/responses", RESPONSES, "output"),
        ("/beta/responses", RESPONSES, "output"),
        ("/anthropic/v1/messages", MESSAGES, "stop_reason"),
        ("/anthropic/messages", MESSAGES, "stop_reason"),
        ("/completions", {"model": MODEL, "prompt": "complete"}, "choices"),
        ("/beta/completions", {"model": MODEL, "prompt": "complete"}, "choices"),
        ("/v1/messages?beta=true", MESSAGES, "stop_reason"),
        ("/anthropic/v1/messages/count_tokens", MESSAGES, "input_tokens"),
        ("/responses/input_tokens", RESPONSES, "input_tokens"),
    ],
)
def test_every_form_of_a_path_answers(
    scripted_server: ServerProcess, path: str, body: dict[str, Any], member: str
) -> None:
    response = scripted_server.http.post(path, json=body)
    assert response.status_code == 200 and member in response.json()


def test_the_sdks_work_with_deepseeks_bases(scripted_server: ServerProcess) -> None:
    url = scripted_server.url
    for base in (url, f"{url}/beta", f"{url}/v1"):
        with openai.OpenAI(base_url=base, api_key="none", max_retries=0) as oa:
            assert oa.chat.completions.create(**chat_body("Hello")).choices[0].message.content
            assert oa.completions.create(model=MODEL, prompt="complete").choices[0].text
            assert [model.id for model in oa.models.list()] == [MODEL]
    with anthropic.Anthropic(base_url=f"{url}/anthropic", api_key="none", max_retries=0) as an:
        assert an.messages.create(**MESSAGES).stop_reason == "end_turn"
        assert an.messages.count_tokens(model=MODEL, messages=MESSAGES["messages"]).input_tokens > 0
        assert [model.id for model in an.models.list()] == [MODEL]


def test_models_are_described_for_both_sdks(scripted_server: ServerProcess) -> None:
    with openai.OpenAI(base_url=f"{scripted_server.url}/v1", api_key="none", max_retries=0) as oa:
        (listed,) = oa.models.list()
        found = oa.models.retrieve(MODEL)
        assert listed == found
        assert (found.id, found.object, found.owned_by) == (MODEL, "model", "deepinfer")
        assert found.created > 1_700_000_000 and found.model_extra is not None
        assert found.model_extra["max_model_len"] == 1024 * 1024
        with pytest.raises(openai.NotFoundError) as caught:
            oa.models.retrieve("gpt-9")
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    with anthropic.Anthropic(base_url=scripted_server.url, api_key="none", max_retries=0) as an:
        assert an.models.retrieve(MODEL).created_at.year >= 2024
        with pytest.raises(anthropic.NotFoundError):
            an.models.retrieve("claude-9")


def test_aliases_stand_for_served_names(start_server: StartServer) -> None:
    server = start_server("--model-alias", "claude-*", "--model-alias", f"gpt-5={MODEL}")
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as an:
        for name in ("claude-opus-5[1m]", "claude-haiku-4-5-20251001", f"{MODEL}[1m]"):
            message = an.messages.create(**{**MESSAGES, "model": name})
            assert (message.model, message.stop_reason) == (name, "end_turn")
            assert an.messages.count_tokens(model=name, messages=MESSAGES["messages"]).input_tokens > 0
            assert an.models.retrieve(name).id == name
        with pytest.raises(anthropic.NotFoundError):
            an.messages.create(**{**MESSAGES, "model": "opus"})
        with pytest.raises(anthropic.BadRequestError):
            an.messages.create(**{**MESSAGES, "model": "claude-x", "max_tokens": 0})
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as oa:
        assert oa.responses.create(model="gpt-5", input="Hello").model == "gpt-5"
        assert oa.completions.create(model="gpt-5", prompt="complete").model == "gpt-5"
        assert [model.id for model in oa.models.list()] == [MODEL]


def test_tokens_go_there_and_back(scripted_server: ServerProcess) -> None:
    http = scripted_server.http
    text = "Grüße, 世界 🙂"
    found = http.post("/tokenize", json={"prompt": text, "add_special_tokens": False, "return_token_strs": True}).json()
    assert found["tokens"] == TOKENIZER.encode(text)
    assert (found["count"], found["max_model_len"]) == (len(found["tokens"]), 1024 * 1024)
    assert len(found["token_strs"]) == found["count"]
    assert http.post("/detokenize", json={"tokens": found["tokens"]}).json() == {"prompt": text}
    chat = http.post("/tokenize", json=chat_body("Hello")).json()
    used = http.post("/v1/chat/completions", json=chat_body("Hello")).json()["usage"]["prompt_tokens"]
    assert chat["count"] == used


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/tokenize", {}, "exactly_one"),
        ("/tokenize", {"prompt": "a", "messages": []}, "exactly_one"),
        ("/tokenize", {"prompt": 5}, "invalid_type"),
        ("/tokenize", {"messages": 5, "model": MODEL}, "invalid_type"),
        ("/tokenize", {"prompt": "a", "model": "gpt-9"}, "model_not_found"),
        ("/detokenize", {}, "invalid_type"),
        ("/detokenize", {"tokens": [-1]}, "invalid_token_id"),
        ("/detokenize", {"tokens": [129280]}, "invalid_token_id"),
        ("/detokenize", {"tokens": [2**100]}, "invalid_token_id"),
        ("/detokenize", {"tokens": ["a"]}, "invalid_type"),
        ("/detokenize", {"tokens": [0.5]}, "invalid_type"),
    ],
)
def test_faulty_token_requests_are_refused(
    scripted_server: ServerProcess, path: str, body: dict[str, Any], code: str
) -> None:
    response = scripted_server.http.post(path, json=body)
    assert response.status_code in (400, 404) and response.json()["error"]["code"] == code


def test_probes_need_no_key_and_nothing_else_is_open(start_server: StartServer) -> None:
    server = start_server("--api-key", "one")
    for method, path in (("HEAD", "/"), ("GET", "/"), ("GET", "/health"), ("GET", "/ready")):
        assert server.http.request(method, path).status_code == 200
    for path in ("/metrics", "/v1/models", "/openapi.json", "/user/balance", "/v1/responses/resp_1"):
        assert server.http.get(path).status_code == 401


def test_odd_methods_are_no_fault_of_the_server(scripted_server: ServerProcess) -> None:
    for path in ("/", "/v1/messages", "/v1/models", "/nowhere"):
        for method in ("HEAD", "OPTIONS", "PUT", "TRACE", "BREW"):
            assert scripted_server.http.request(method, path).status_code < 500


def test_there_is_no_balance(scripted_server: ServerProcess) -> None:
    assert scripted_server.http.get("/user/balance").json() == {"is_available": True, "balance_infos": []}


def test_the_description_names_every_path_and_describes_bodies(scripted_server: ServerProcess) -> None:
    document = scripted_server.http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    for path, operations in document["paths"].items():
        for method in operations:
            plain = path.replace("{", "").replace("}", "")
            response = scripted_server.http.request(method, plain, json={})
            # It is there: whatever is wrong with this request, it is not the path or the method.
            assert response.status_code != 405
            assert f"there is no {plain} here" not in response.text
    schemas = document["components"]["schemas"]
    assert '"$ref": "#/components/schemas/messages"' in json.dumps(document)
    for name, body in (("chat_completions", chat_body("x")), ("responses", RESPONSES), ("messages", MESSAGES)):
        jsonschema.validate(body, schemas[name])
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**body, "model": 5}, schemas[name])
