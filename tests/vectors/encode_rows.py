"""Judges one row of encode vectors: what the codec makes of its request against what the file says."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import deepseek_recipe as recipe

Row = dict[str, Any]

PROTOCOLS = {"chat": "chat_completions", "responses": "responses", "messages": "messages"}
VERSIONS = {"v4": "v4", "v41": "v4.1"}
MODELS = {"DeepSeek-V4-Pro": "v4", "DeepSeek-V4.1-Flash": "v4.1"}
STAGES = {
    "ReasoningStart": "reasoning_start",
    "ReasoningContinuation": "reasoning_continuation",
    "ContentContinuation": "content_continuation",
    None: "content",
}
IMAGE_KINDS = {"url": "url", "base64": "data_url"}
TOKENIZER = Path(__file__).parents[2] / "recipe" / "data" / "tokenizer_v4.json"


@functools.cache
def vector_tokenizer() -> recipe.Tokenizer:
    """The tokenizer of the V4.1 rows: V4's, with the placeholder 128799 named as the system token."""
    data = json.loads(TOKENIZER.read_text(encoding="utf-8"))
    for token in data["added_tokens"]:
        if token["id"] == 128799:
            token["content"] = "<｜System｜>"
    return recipe.Tokenizer(json.dumps(data, ensure_ascii=False).encode())


def options(row: Row) -> recipe.Options:
    """The codec's settings for a row; what the row leaves out is the reference's default."""
    given = row.get("options") or {}
    models = MODELS | {name: VERSIONS[version] for name, version in given.get("model_aliases", {}).items()}
    bound = given.get("thinking_max_tokens_upper_bound", 393216)
    return recipe.Options(
        models=models,
        default_thinking=given.get("default_thinking_mode", True),
        missing_reasoning="reject" if given.get("reasoning_content_behavior") == "Reject" else "fill",
        responses_web_search=given.get("responses_web_search", "Drop").lower(),
        messages_web_search=given.get("messages_web_search", "Reject").lower(),
        max_tokens_bounds=(bound, 393216),
        special_tokens={"image": "<｜image｜>"} | given.get("special_tokens", {}),
        tokenizers={"v4.1": vector_tokenizer()},
    )


def encoded(row: Row) -> recipe.Encoded:
    """What the codec makes of a row. Raises `RequestError` where it refuses."""
    if row["protocol"] == "conversation":
        version = VERSIONS[row["model_version"]]
        return recipe.encode_conversation(row["conversation"], version=version, options=options(row))
    body = row["request_text"] if "request_text" in row else json.dumps(row["request"], ensure_ascii=False)
    return recipe.encode(body, PROTOCOLS[row["protocol"]], options=options(row))


def check(row: Row, deviation: Row | None) -> str | None:
    """The first difference between a row and the codec, or None. A listed deviation must be met, and must differ."""
    expected = row
    if deviation is not None:
        if difference_of(row) is None:
            return "is listed as a deviation but equals the file"
        expected = {key: value for key, value in row.items() if key not in ("ok", "error")}
        expected |= {"ok": merged(row.get("ok", {}), deviation["ok"])} if "ok" in deviation else {"error": {}}
    return difference_of(expected)


def merged(base: Row, changes: Row) -> Row:
    """The members of `base`, with those of `changes` in their places at every level."""
    result = dict(base)
    for key, value in changes.items():
        below = base.get(key)
        result[key] = merged(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return result


def difference_of(row: Row) -> str | None:
    """The first difference between a row and the codec, or None."""
    try:
        result = encoded(row)
    except recipe.RequestError as error:
        return refusal_difference(row, error)
    if "ok" not in row:
        return "was accepted, should be refused"
    return ok_difference(row["ok"], result)


def refusal_difference(row: Row, error: recipe.RequestError) -> str | None:
    """A refusal is right where the file refuses; status and wording are ours."""
    if "error" not in row:
        return f"was refused: {error}"
    return None if 400 <= error.status_code < 500 else f"has status {error.status_code}"


def ok_difference(ok: Row, result: recipe.Encoded) -> str | None:
    """The first difference between an accepted row and what the codec made of it."""
    if "prompt" in ok and result.prompt != ok["prompt"]:
        return "prompt: " + text_difference(ok["prompt"], result.prompt)
    if "token_ids" in ok and (ids := result.token_ids.tolist()) != ok["token_ids"]:
        return "token ids: " + ids_difference(ok["token_ids"], ids)
    for name, expected, found in comparisons(ok, result):
        if expected != found:
            return f"{name}: expected {expected!r}, found {found!r}"
    return None


def comparisons(ok: Row, result: recipe.Encoded) -> list[tuple[str, Any, Any]]:
    """Everything to compare besides prompt and ids: name, expectation, finding."""
    compared: list[tuple[str, Any, Any]] = []
    if "special_ranges" in ok:
        compared.append(("special_ranges", ok["special_ranges"], [list(span) for span in result.special_ranges]))
    if "image_sources" in ok:
        images = [[IMAGE_KINDS[image.kind], image.detail, image.path] for image in result.images]
        compared.append(("image_sources", ok["image_sources"], images))
    if (expected := ok.get("inference_options")) is not None:
        constraint = expected.get("output_constraint")
        compared.append(("constraint", constraint and constraint["kind"], result.constraint and result.constraint.kind))
        for key in ("max_tokens", "temperature", "top_p", "logprobs", "top_logprobs", "seed"):
            compared.append((key, expected.get(key), getattr(result.sampling, key)))
    if (expected := ok.get("parsing_options")) is not None:
        compared.append(("initial_stage", STAGES[expected.get("thinking_initial_stage")], result.parsing.initial_stage))
        for key in ("parse_tool_calls", "starts_in_tool_calls", "parse_json_output", "stop_sequences"):
            compared.append((key, expected[key], getattr(result.parsing, key)))
    if "choices" in ok:
        compared.append(("choices", ok["choices"], result.choices))
    if "stream" in ok:
        compared.append(("stream", ok["stream"], result.stream))
    for prompt_tokens, context_length, limit in ok.get("resolve_max_tokens", []):
        found = resolved(result, prompt_tokens, context_length)
        name = f"resolve_max_tokens({prompt_tokens}, {context_length})"
        compared.append((name, limit if isinstance(limit, int) else "refused", found))
    if "namespace_tool_map" in ok:
        names = {flat: list(pair) for flat, pair in result.namespace_tools.items()}
        compared.append(("namespace_tool_map", ok["namespace_tool_map"], names))
    if "echo" in ok:
        echo = json.loads(result.echo or "{}")
        compared.extend((f"echo.{key}", value, echo.get(key)) for key, value in ok["echo"].items())
    return compared


def resolved(result: recipe.Encoded, prompt_tokens: int, context_length: int) -> int | str:
    """The answer's token limit, or that there is no room."""
    try:
        return result.resolve_max_tokens(context_length, prompt_tokens)
    except recipe.RequestError:
        return "refused"


def text_difference(expected: str, found: str) -> str:
    """The surroundings of the first difference of two texts."""
    shared = zip(expected, found, strict=False)
    place = next((index for index, (a, b) in enumerate(shared) if a != b), min(len(expected), len(found)))
    start = max(0, place - 40)
    return f"at {place}: expected …{expected[start : place + 40]!r}, found …{found[start : place + 40]!r}"


def ids_difference(expected: list[int], found: list[int]) -> str:
    """The surroundings of the first difference of two lists of ids, with their texts."""
    shared = zip(expected, found, strict=False)
    place = next((index for index, (a, b) in enumerate(shared) if a != b), min(len(expected), len(found)))
    tokenizer = vector_tokenizer()
    window = slice(max(0, place - 3), place + 5)
    sides = [f"{ids[window]} {tokenizer.decode(ids[window])!r}" for ids in (expected, found)]
    return f"at {place}: expected {sides[0]}, found {sides[1]}"
