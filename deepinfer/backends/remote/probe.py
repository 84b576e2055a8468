"""Finds out what an upstream offers: by its list of models, and by asking it for one token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from deepinfer.backends.remote.config import RemoteConfig
from deepinfer.backends.remote.dialects import Dialect, GrammarForm
from deepinfer.backends.remote.dialects.openai import OpenAiDialect
from deepinfer.backends.remote.dialects.sglang import SglangDialect
from deepinfer.backends.remote.dialects.text import TextDialect
from deepinfer.backends.remote.faults import broken, refusal
from deepinfer.backends.remote.http_client import HttpClient

_LIST_SECONDS: Final = 10.0
# A server may have to compile something for its first token.
_TOKEN_SECONDS: Final = 60.0
# Any id of ordinary text does. A grammar that begins with it shows whether control tokens can be named by id. Terminals
# that are intersected or complemented, as ours are, tell engines that know all of the dialect from those that do not.
_ID: Final = 1000
_GRAMMAR: Final = f"start: <[{_ID}]> REST\nREST: /[a-z]+/ & ~(/x/)"

_NO_IDS: Final = (
    "it gives no token ids, only text: control tokens that the model spells cannot be told from real ones, history is "
    "not token-faithful, grammars, budgets of thinking and log probabilities are refused, and tokens are counted by "
    "events until the server tells their number"
)
_NO_IDS_IN: Final = "it takes no token ids: control tokens that users spell in their messages become real ones"
_NO_GRAMMARS: Final = (
    "it holds no answer to a grammar in the dialect of llguidance, so formats and required calls are refused; "
    "vLLM does so with the structured-outputs backend guidance, SGLang with the grammar backend llguidance"
)

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Found:
    """What an upstream is. `warnings` say what is lost with it."""

    dialect: Dialect
    model: str
    context_length: int | None
    warnings: tuple[str, ...]


class _Model(msgspec.Struct):
    id: str
    owned_by: str = ""
    max_model_len: int | None = None
    context_window: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


class _Choice(msgspec.Struct):
    token_ids: list[int] | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]


class _Generated(msgspec.Struct):
    output_ids: list[int] | None = None


async def first_model(client: HttpClient) -> str:
    """The name of the first model that an upstream lists. Raises `UpstreamFaultError` and `ConnectionFaultError`."""
    return (await _models(client))[0].id


async def probe(client: HttpClient, config: RemoteConfig) -> Found:
    """Find out what an upstream is. Raises `UpstreamFaultError` and `ConnectionFaultError`."""
    model = _choose(await _models(client), config.model)
    dialect, warnings = await _dialect(client, config, model)
    return Found(dialect, model.id, model.max_model_len or model.context_window, warnings)


async def _models(client: HttpClient) -> list[_Model]:
    answer = await client.fetch("GET", "/v1/models", seconds=_LIST_SECONDS)
    if answer.status != 200:
        raise refusal(answer.status, answer.body)
    models = _read(answer.body, _Models)
    if models is None or not models.data:
        raise broken("GET /v1/models does not list models, so it is no server of OpenAI's protocol")
    return models.data


def _choose(models: Sequence[_Model], name: str | None) -> _Model:
    for model in models:
        if name is None or model.id == name:
            return model
    listed = ", ".join(model.id for model in models[:10])
    raise broken(f"it does not serve {name!r} but {listed}; check the setting upstream_model")


async def _dialect(client: HttpClient, config: RemoteConfig, model: _Model) -> tuple[Dialect, tuple[str, ...]]:
    size = config.vocabulary_size
    if model.owned_by == "deepinfer":
        return OpenAiDialect(model.id, size, GrammarForm.WHOLE), ()
    ask: dict[str, Any] = {"model": model.id, "prompt": [_ID, _ID], "max_tokens": 1, "temperature": 0}
    ask["return_token_ids"] = True
    held = await _completion(client, ask | {"structured_outputs": {"grammar": _GRAMMAR}})
    plain = held if held is not None else await _completion(client, ask)
    if plain is not None and (ids := plain.choices[0].token_ids) is not None:
        form = GrammarForm.FROM_THE_START if held is not None and ids[:1] == [_ID] else GrammarForm.NONE
        return OpenAiDialect(model.id, size, form), _warnings(form)
    ask = {"input_ids": [_ID, _ID], "sampling_params": {"max_new_tokens": 1, "temperature": 0, "ebnf": _GRAMMAR}}
    held_ids = await _generated(client, ask)
    del ask["sampling_params"]["ebnf"]
    ids = held_ids if held_ids is not None else await _generated(client, ask)
    if ids is not None:
        form = GrammarForm.FROM_THE_START if held_ids is not None and ids[:1] == [_ID] else GrammarForm.NONE
        return SglangDialect(size, form), _warnings(form)
    if plain is not None:
        return TextDialect(model.id, None), (_NO_IDS,)
    return TextDialect(model.id, config.spell), (_NO_IDS, _NO_IDS_IN)


def _warnings(form: GrammarForm) -> tuple[str, ...]:
    return (_NO_GRAMMARS,) if form is GrammarForm.NONE else ()


async def _completion(client: HttpClient, ask: dict[str, Any]) -> _Completion | None:
    found = await _ask(client, "/v1/completions", ask, _Completion)
    return found if found is not None and found.choices else None


async def _generated(client: HttpClient, ask: dict[str, Any]) -> list[int] | None:
    found = await _ask(client, "/generate", ask, _Generated)
    return None if found is None else found.output_ids


async def _ask(client: HttpClient, path: str, ask: dict[str, Any], form: type[Answer]) -> Answer | None:
    """The answer, or None where the upstream does not know the path or refuses the request."""
    answer = await client.fetch("POST", path, msgspec.json.encode(ask), seconds=_TOKEN_SECONDS)
    if answer.status in (401, 403, 429, 503):
        raise refusal(answer.status, answer.body)
    return _read(answer.body, form) if answer.status == 200 else None


def _read(body: bytes, form: type[Answer]) -> Answer | None:
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
