"""Judges one row of decode vectors: what a decoder makes of its chunks against what the file says."""

from __future__ import annotations

import json
from typing import Any

import deepseek_recipe as recipe
from tests.vectors.folds import BrokenStreamError, fold, frames, masked

Row = dict[str, Any]

PROTOCOLS = {"chat": "chat_completions", "responses": "responses", "messages": "messages"}
SEED = b"decode vectors"


def check(row: Row, deviation: Row | None) -> str | None:
    """The first difference between a row and the decoder, or None. A listed deviation must be met, and must differ."""
    try:
        expected, found = of_file(row), replayed(row)
    except BrokenStreamError as fault:
        return f"breaks its protocol: {fault}"
    if deviation is not None:
        if expected == found:
            return "is listed as a deviation but equals the file"
        expected = of_deviation(expected, deviation)
    return difference(expected, found)


def of_file(row: Row) -> Row:
    """What the file says: the folded stream, the full response, and whether a chunk was refused."""
    stream = fold(row["protocol"], [(event["event"], event["data"]) for event in row["events"]])
    return {"stream": stream, "response": masked(row["response"]), "is_refused": row["error"] is not None}


def of_deviation(base: Row, deviation: Row) -> Row:
    """`base` with the members of a listed deviation in their places. `stream` and `response` are JSON texts, for TOML
    has no null."""
    changed = {key: base[key] | json.loads(deviation.get(key, "{}")) for key in ("stream", "response")}
    return base | changed | {"is_refused": deviation.get("is_refused", base["is_refused"])}


def replayed(row: Row) -> Row:
    """What our decoder makes of a row, in the form of `of_file`."""
    decoder = decoder_of(row)
    sent = b""
    is_refused = False
    for chunk in row["chunks"]:
        try:
            sent += push(decoder, chunk)
        except ValueError:
            is_refused = True
            break
    stream = fold(row["protocol"], frames(sent))
    return {"stream": stream, "response": masked(json.loads(decoder.response())), "is_refused": is_refused}


def push(decoder: recipe.Decoder, chunk: Row) -> bytes:
    """Gives one chunk to a decoder."""
    match chunk["kind"]:
        case "ready":
            return decoder.start(
                prompt_tokens=chunk["prompt_tokens"] or 0,
                cached_tokens=chunk["prompt_cache_hit_tokens"] or 0,
                fingerprint=chunk["system_fingerprint"],
            )
        case "text":
            return decoder.push_text(chunk["content"], chunk["token_count"])
        case "tokens":
            return decoder.push(chunk["token_ids"], logprobs_of(chunk))
        case "finish":
            return decoder.finish(chunk["finish_reason"])
        case "eof":
            return decoder.finish(None)
        case kind:
            raise AssertionError(f"unknown kind of chunk: {kind}")


def logprobs_of(chunk: Row) -> list[tuple[float, list[tuple[int, float]]]] | None:
    """Log probabilities as a decoder takes them; JSON has no infinity, so the file says null."""
    if chunk["logprobs"] is None:
        return None
    return [(number(own), [(id, number(top)) for id, top in others]) for own, others in chunk["logprobs"]]


def number(value: float | None) -> float:
    """A log probability; null is that of what cannot happen."""
    return float("-inf") if value is None else value


def decoder_of(row: Row) -> recipe.Decoder:
    """The decoder that a row describes."""
    options, generator = row["options"], row["generator"]
    asked = [len(others) for chunk in row["chunks"] for _, others in chunk.get("logprobs") or []]
    parsing = recipe.Parsing(
        initial_stage=options["thinking_initial_stage"] or "content",
        parse_tool_calls=options["parse_tool_calls"],
        starts_in_tool_calls=options["starts_in_tool_calls"],
        parse_json_output=options["parse_json_output"],
        stop_sequences=options["stop_sequences"],
        top_logprobs=max(asked, default=None),
    )
    request = responses_request(generator) if row["protocol"] == "responses" else None
    names = generator.get("namespace_tool_map") or {}
    return recipe.Decoder(
        PROTOCOLS[row["protocol"]],
        parsing,
        id=generator["id"],
        model=generator["model"],
        created=0,
        seed=SEED,
        thinking=generator["thinking"],
        custom_tools=request.custom_tools if request else (),
        namespace_tools={flat: (namespace, name) for flat, (namespace, name) in names.items()},
        echo=request.echo if request else None,
        include_usage=generator.get("usage_null", True),
        signature=generator.get("signature"),
        tokenizer="v4",
        special_tokens=options["special_tokens"],
    )


def responses_request(generator: Row) -> recipe.Encoded:
    """The request whose settings a Responses answer repeats."""
    request = {"model": generator["model"], "input": "x", **(generator["echo_request"] or {})}
    if not generator["thinking"]:
        request["reasoning"] = {"effort": "none"}
    return recipe.encode(request, "responses", options=recipe.Options(models={generator["model"]: "v4"}))


def difference(expected: Any, found: Any, path: str = "") -> str | None:
    """The first difference of two JSON values. Numbers compare as doubles."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in [*expected, *(key for key in found if key not in expected)]:
            if key not in expected or key not in found:
                return f"{path}.{key}: {'missing' if key in expected else f'should not be there: {found[key]!r}'}"
            if below := difference(expected[key], found[key], f"{path}.{key}"):
                return below
        return None
    if isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            return f"{path}: expected {len(expected)} entries {expected!r:.300}, found {len(found)} {found!r:.300}"
        pairs = enumerate(zip(expected, found, strict=True))
        return next((below for place, (a, b) in pairs if (below := difference(a, b, f"{path}.{place}"))), None)
    is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (expected, found))
    same = float(expected) == float(found) if is_number else type(expected) is type(found) and expected == found
    return None if same else f"{path}: expected {expected!r}, found {found!r}"
