"""Frames and what is in them: cut anywhere, too long, of the wrong kind, or written by somebody who means harm."""

from __future__ import annotations

import random

import msgspec
import pytest

from deepinfer.core import FinishReason, Grammar, SamplingParams, StepOutput, ThinkingLimit, TokenLogprob
from deepinfer.link.frames import ANSWERING, ASKING, Frame, FrameError, FrameReader, Kind, frame
from deepinfer.link.ids import ids_from_bytes, ids_to_bytes
from deepinfer.link.messages import (
    MAX_ANSWER_BYTES,
    Failed,
    MessageError,
    Submit,
    pack,
    packed_outputs,
    read_failure,
    read_output,
    read_submit,
)

SENT = [
    (Kind.SUBMIT, 0, b"x" * 300),
    (Kind.ABORT, 2**64 - 1, b""),
    (Kind.PAUSE, 7, b""),
    (Kind.SUBMIT, 8, b"\x00\xff" * 5000),
    (Kind.RESUME, 7, b""),
]
STREAM = b"".join(frame(*one) for one in SENT)
FRAMES = [Frame(kind, number, memoryview(payload)) for kind, number, payload in SENT]


@pytest.mark.parametrize("size", [1, 2, 12, 13, 14, 313, 314, 4096, len(STREAM)])
def test_frames_are_the_same_however_they_are_cut(size: int) -> None:
    reader = FrameReader(ASKING, 1 << 20)
    found = [one for start in range(0, len(STREAM), size) for one in reader.feed(STREAM[start : start + size])]
    assert found == FRAMES and not reader.is_within_frame


@pytest.mark.parametrize("size", [1, 13, 1000, 1 << 20])
def test_nothing_is_held_of_a_payload_that_is_too_long(size: int) -> None:
    reader = FrameReader(ASKING, 1000)
    found: list[Frame] = []
    for start in range(0, len(STREAM), size):
        found += reader.feed(STREAM[start : start + size])
        assert len(reader._begun) <= 1013
    assert found == [one if len(one.payload or b"") <= 1000 else one._replace(payload=None) for one in FRAMES]


def test_a_frame_that_has_begun_is_known_to_have() -> None:
    reader = FrameReader(ASKING, 1 << 20)
    assert not reader.feed(STREAM[:5]) and reader.is_within_frame
    skipping = FrameReader(ASKING, 10)
    assert skipping.feed(STREAM[:20]) == [Frame(Kind.SUBMIT, 0, None)] and skipping.is_within_frame


@pytest.mark.parametrize(
    ("kinds", "data"),
    [
        (ASKING, b"POST /v1/completions HTTP/1.1\r\n\r\n"),
        (ASKING, frame(Kind.OUTPUT, 1)),
        (ANSWERING, frame(Kind.SUBMIT, 1)),
        (ASKING, b"\x00" * 13),
        (ASKING, frame(Kind.ABORT, 1) + b"\xff" * 13),
    ],
)
def test_what_are_no_frames_is_told(kinds: frozenset[Kind], data: bytes) -> None:
    with pytest.raises(FrameError, match="kind"):
        FrameReader(kinds, 1 << 20).feed(data)


def test_random_bytes_are_frames_or_told() -> None:
    chance = random.Random(5)
    for _ in range(2000):
        reader = FrameReader(ASKING, 100)
        data = chance.randbytes(chance.randrange(60))
        try:
            assert all(one.kind in ASKING for one in reader.feed(data))
        except FrameError:
            pass


SUBMIT = Submit(
    request_id="a/0",
    ids=ids_to_bytes([5, 6, 2**32 - 1]),
    sampling=SamplingParams(max_tokens=5, logit_bias={7: -1.5}, seed=-(2**63), stop_token_ids=(1, 2), top_logprobs=3),
    grammar=Grammar(text="start: /a/", start_after=4, trigger=5, binding=False, required=False, field="tools"),
    thinking_limit=ThinkingLimit(tokens=5, end_token_id=4),
)


def test_a_request_comes_as_it_went() -> None:
    assert read_submit(pack(SUBMIT)) == SUBMIT
    assert ids_from_bytes(SUBMIT.ids).tolist() == [5, 6, 2**32 - 1]


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_a_rest_of_an_id_is_none(length: int) -> None:
    with pytest.raises(ValueError, match="4 bytes"):
        ids_from_bytes(b"x" * length)


@pytest.mark.parametrize(
    "output",
    [
        StepOutput(token_ids=(5,)),
        StepOutput(token_ids=(), cached_tokens=7),
        StepOutput(token_ids=(5, 6), finish_reason=FinishReason.LENGTH, cached_tokens=0),
        StepOutput(token_ids=(5,), logprobs=(TokenLogprob(-0.5, ((5, -0.5), (9, -3.0))),)),
        StepOutput(token_ids=(), text="ä🙂", text_tokens=2),
    ],
)
def test_an_output_comes_as_it_went(output: StepOutput) -> None:
    assert [read_output(payload) for payload in packed_outputs(output)] == [output]


def test_a_long_output_goes_in_parts_that_are_taken() -> None:
    best = tuple((token_id, -float(token_id)) for token_id in range(100_000, 100_020))
    long = StepOutput(
        token_ids=tuple(range(5000)),
        logprobs=tuple(TokenLogprob(-float(place), best) for place in range(5000)),
        finish_reason=FinishReason.STOP,
        cached_tokens=3,
    )
    payloads = list(packed_outputs(long))
    assert len(payloads) == 5 and max(map(len, payloads)) <= MAX_ANSWER_BYTES
    parts = [read_output(payload) for payload in payloads]
    assert tuple(token_id for part in parts for token_id in part.token_ids) == long.token_ids
    assert tuple(entry for part in parts for entry in part.logprobs or ()) == long.logprobs
    assert [part.finish_reason for part in parts] == [None] * 4 + [FinishReason.STOP]
    assert [part.cached_tokens for part in parts] == [None] * 4 + [3]
    text = StepOutput(token_ids=(), text="x" * 3000, text_tokens=9)
    parts = [read_output(payload) for payload in packed_outputs(text)]
    assert ("".join(part.text or "" for part in parts), sum(part.text_tokens for part in parts)) == ("x" * 3000, 9)


DEEP = b"\x91" * 100_000
GOOD = msgspec.to_builtins(SUBMIT, builtin_types=(bytes,), str_keys=False)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        DEEP,
        b"\xc1",
        pack(SUBMIT)[:-1],
        pack(SUBMIT) + b"\x00",
        msgspec.msgpack.encode([1, 2]),
        msgspec.msgpack.encode({}),
        msgspec.msgpack.encode(GOOD | {"ids": "text"}),
        msgspec.msgpack.encode(GOOD | {"request_id": 5}),
        msgspec.msgpack.encode(GOOD | {"sampling": {"max_tokens": "many"}}),
        msgspec.msgpack.encode(GOOD | {"sampling": {"max_tokens": 5, "logit_bias": {"a": 1}}}),
        msgspec.msgpack.encode(GOOD | {"grammar": {"text": None}}),
        msgspec.msgpack.encode(GOOD)[:-1] + DEEP,
    ],
)
def test_a_request_that_cannot_be_read_is_told(payload: bytes) -> None:
    with pytest.raises(MessageError, match="cannot be read"):
        read_submit(payload)


@pytest.mark.parametrize(
    "payload",
    [b"", DEEP, b"\x91\x91" + DEEP, msgspec.msgpack.encode([[1.5]]), msgspec.msgpack.encode([[1], "because"])],
)
def test_an_output_that_cannot_be_read_is_told(payload: bytes) -> None:
    with pytest.raises(MessageError):
        read_output(payload)
    with pytest.raises(MessageError):
        read_failure(payload)


def test_members_that_are_not_known_yet_are_skipped() -> None:
    later = msgspec.msgpack.encode(GOOD | {"priority": [[1, 2], {"deep": DEEP}]})
    assert read_submit(later) == SUBMIT
    assert read_failure(pack(Failed(400, "a", "b"))) == Failed(400, "a", "b", None)
