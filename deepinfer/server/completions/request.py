"""The body of a text completion: read, checked, and turned into prompts of token ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from deepinfer.cache.prefix import packed
from deepinfer.core import Grammar, ThinkingLimit
from deepinfer.link.ids import ID_BYTES, ids_from_bytes
from deepinfer.server.errors import HttpError
from deepinfer.server.json_body import read_json, read_msgpack
from deepinfer.server.services import Services

MAX_LOGPROBS: Final = 20
MAX_SEED: Final = 2**63
_MAX_STOPS: Final = 16
_MAX_STOP_LENGTH: Final = 256
_MAX_STOP_IDS: Final = 64
_MAX_CHOICES: Final = 128
_MAX_PER_PROMPT: Final = 8
# Order of DeepSeek's models: what stands before the gap, the gap, what stands after it.
_FIM_MARKS: Final = ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>")


class StreamOptions(msgspec.Struct):
    """`stream_options`."""

    include_usage: bool = False
    continuous_usage_stats: bool = False


class CompletionRequest(msgspec.Struct):
    """Body of `/v1/completions`. Unknown members are ignored."""

    model: str
    prompt: str | list[str | int | list[int]] | None = None
    # One prompt of ids, four bytes each, the lowest first; in JSON as base64.
    prompt_ids: bytes | None = None
    suffix: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    n: int | None = None
    best_of: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: int | None = None
    echo: bool | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[int, float] | None = None
    stop_token_ids: list[int] | None = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    return_prompt_token_ids: bool = True
    add_special_tokens: bool = True
    grammar: Grammar | None = None
    thinking_limit: ThinkingLimit | None = None

    @property
    def stops(self) -> list[str]:
        """Texts that end an answer."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []


def read_completion(body: bytes, services: Services) -> CompletionRequest:
    """Read and check a body. Raises `HttpError`."""
    # A map of MessagePack begins with a byte that begins no JSON.
    request = (read_msgpack if body[:1] >= b"\x80" else read_json)(body, CompletionRequest)
    services.check_model(request.model)
    _check_prompt(request)
    check_number("max_tokens", request.max_tokens, 1, services.model.context_length)
    check_number("temperature", request.temperature, 0, 2)
    check_number("top_p", request.top_p, 0, 1)
    check_number("top_k", request.top_k, -1, 2**31)
    check_number("min_p", request.min_p, 0, 1)
    check_number("presence_penalty", request.presence_penalty, -2, 2)
    check_number("frequency_penalty", request.frequency_penalty, -2, 2)
    check_number("repetition_penalty", request.repetition_penalty, 0.01, 10)
    _check_bias(request, services)
    check_stop_ids(request.stop_token_ids or [], services)
    check_number("n", request.n, 1, _MAX_PER_PROMPT)
    check_number("logprobs", request.logprobs, 0, MAX_LOGPROBS)
    check_number("seed", request.seed, -MAX_SEED, MAX_SEED - 1)
    if request.best_of not in (None, request.n or 1):
        raise _refused("unsupported", "best_of", f"must be left out or equal to n, not {request.best_of}")
    if request.echo and request.logprobs is not None:
        raise _refused("unsupported", "logprobs", "are not known of the prompt; leave out echo or logprobs")
    if request.stream_options is not None and not request.stream:
        raise _refused("requires", "stream_options", "requires stream")
    _check_stops(request.stops)
    _check_suffix(request)
    return request


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: its ids, and how to get its text, as `echo` gives it back."""

    ids: Sequence[int]
    text: Callable[[], str]


def prompts_of(request: CompletionRequest, services: Services) -> list[Prompt]:
    """The prompts of a request. Raises `HttpError`."""
    given = request.prompt
    if given is None:
        return [_id_prompt(ids_from_bytes(request.prompt_ids or b""), "prompt_ids", services)]
    if isinstance(given, str):
        return [_text_prompt(given, "prompt", request, services)]
    if not given:
        raise _refused("empty_array", "prompt", "must hold at least one item")
    if isinstance(given[0], int) and (ids := _packed(given)) is not None:
        return [_id_prompt(ids, "prompt", services)]
    kinds = set(map(type, given))
    if kinds == {int}:
        return [_id_prompt(cast(list[int], given), "prompt", services)]
    if len(kinds) > 1:
        raise _refused("invalid_type", "prompt", "must be a text, a list of texts, of token ids or of lists of these")
    count = len(given) * (request.n or 1)
    if count > _MAX_CHOICES:
        raise _refused("array_too_long", "prompt", f"may ask for at most {_MAX_CHOICES} answers, not {count}")
    prompts = []
    for place, item in enumerate(given):
        name = f"prompt[{place}]"
        if isinstance(item, str):
            prompts.append(_text_prompt(item, name, request, services))
        elif isinstance(item, list):
            prompts.append(_id_prompt(item, name, services))
    return prompts


def _text_prompt(text: str, place: str, request: CompletionRequest, services: Services) -> Prompt:
    if request.suffix is None:
        ids = services.text_ids(text, begin=request.add_special_tokens)
        if not ids:
            raise _refused("empty_string", place, "must not be empty")
        return Prompt(ids, lambda: text)
    # Code on both sides of the gap is text: what it spells is never a control token.
    tokenizer = services.tokenizer
    begin, hole, end = (services.control_id(mark) for mark in _FIM_MARKS)
    inner = [begin, *tokenizer.encode(text), hole, *tokenizer.encode(request.suffix), end]
    return Prompt([services.begin_id, *inner] if request.add_special_tokens else inner, lambda: text)


def _packed(given: Sequence[object]) -> memoryview | None:
    """Ids packed, without a look at each of a million; None if something among them is no id."""
    try:
        return packed(cast(Sequence[int], given))
    except (TypeError, OverflowError):
        return None


def _id_prompt(ids: Sequence[int], place: str, services: Services) -> Prompt:
    if not ids:
        raise _refused("empty_array", place, "must hold at least one token id")
    services.check_ids(ids, place)
    return Prompt(ids if isinstance(ids, memoryview) else packed(ids), lambda: services.tokenizer.decode(ids))


def _check_prompt(request: CompletionRequest) -> None:
    if request.prompt is None and request.prompt_ids is None:
        raise _refused("invalid_type", "prompt", "is missing")
    if request.prompt is not None and request.prompt_ids is not None:
        raise _refused("unsupported", "prompt_ids", "cannot be combined with prompt")
    if request.prompt_ids is not None and len(request.prompt_ids) % ID_BYTES:
        message = f"must have {ID_BYTES} bytes an id, and has {len(request.prompt_ids)} in all"
        raise _refused("invalid_type", "prompt_ids", message)


def _check_suffix(request: CompletionRequest) -> None:
    if request.suffix is None:
        return
    texts = [request.prompt] if isinstance(request.prompt, str) else request.prompt or [0]
    if not all(isinstance(text, str) for text in texts):
        raise _refused("requires", "suffix", "requires a prompt of text, not of token ids")
    if request.echo:
        raise _refused("unsupported", "echo", "cannot be combined with suffix")


def _check_stops(stops: Sequence[str]) -> None:
    if len(stops) > _MAX_STOPS:
        raise _refused("array_too_long", "stop", f"must hold at most {_MAX_STOPS} items, not {len(stops)}")
    for stop in stops:
        if not 1 <= len(stop) <= _MAX_STOP_LENGTH:
            message = f"must have from 1 to {_MAX_STOP_LENGTH} characters each, not {len(stop)}"
            raise _refused("out_of_range", "stop", message)


def check_stop_ids(ids: Sequence[int], services: Services) -> None:
    """Raise a 400 for too many ids that end an answer, or such as are none."""
    if len(ids) > _MAX_STOP_IDS:
        raise _refused("array_too_long", "stop_token_ids", f"must hold at most {_MAX_STOP_IDS} items, not {len(ids)}")
    services.check_ids(ids, "stop_token_ids")


def _check_bias(request: CompletionRequest, services: Services) -> None:
    bias = request.logit_bias or {}
    services.check_ids(list(bias), "logit_bias")
    for token_id, value in bias.items():
        check_number(f"logit_bias.{token_id}", value, -100, 100)


def check_number(name: str, value: float | None, least: float, most: float) -> None:
    """Raise a 400 for a number that is not from `least` to `most`."""
    if value is not None and not least <= value <= most:
        raise _refused("out_of_range", name, f"must be from {least} to {most}, not {value}")


def _refused(code: str, name: str, message: str) -> HttpError:
    return HttpError(400, code, f"{name} {message}", param=name)
