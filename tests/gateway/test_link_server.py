"""An upstream's end of links: gateways that ask well, badly, too much, or that go away."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deepinfer.core import FinishReason, SamplingParams, StepOutput
from deepinfer.link import PATH, PROTOCOL
from deepinfer.link.frames import ANSWERING, Frame, FrameReader, Kind, frame
from deepinfer.link.ids import ids_to_bytes
from deepinfer.link.messages import Failed, Submit, pack, read_failure, read_output
from tests.e2e.server_process import ServerProcess, chat_body, eventually
from tests.gateway.conftest import StartServer

MODEL = "deepinfer-tiny"
# What rules of scripts match.
HELLO = "<｜begin▁of▁sentence｜><｜User｜>Hello<｜Assistant｜>"
ENDLESS = HELLO.replace("Hello", "never end")


class Client:
    """A gateway's end, over a plain socket."""

    def __init__(self, server: ServerProcess, *headers: str, model: str = MODEL) -> None:
        self.socket = server.connect()
        lines = [f"GET {PATH}?model={model} HTTP/1.1", "host: x", f"upgrade: {PROTOCOL}", "connection: upgrade"]
        self.socket.sendall("\r\n".join([*lines, *headers, "", ""]).encode())
        self.head = b""
        while b"\r\n\r\n" not in self.head:
            self.head += self.socket.recv(1)
        self._reader = FrameReader(ANSWERING, 1 << 24)
        self._frames: list[Frame] = []

    def submit(self, number: int, ids: list[int], **fields: Any) -> None:
        sampling = SamplingParams(**{"max_tokens": 1000, "stop_token_ids": (1,)} | fields.pop("sampling", {}))
        submit = Submit("req-7", fields.pop("data", None) or ids_to_bytes(ids), sampling, **fields)
        self.send(Kind.SUBMIT, number, pack(submit))

    def send(self, kind: Kind, number: int, payload: bytes = b"") -> None:
        self.socket.sendall(frame(kind, number, payload))

    def read(self) -> Frame:
        while not self._frames:
            data = self.socket.recv(1 << 16)
            assert data, "the link was closed"
            self._frames = self._reader.feed(data)
        return self._frames.pop(0)

    def outputs(self, number: int) -> list[StepOutput]:
        """All outputs of a request, up to its end."""
        outputs: list[StepOutput] = []
        while not outputs or outputs[-1].finish_reason is None:
            one = self.read()
            assert (one.kind, one.number) == (Kind.OUTPUT, number), one
            outputs.append(read_output(one.payload or b""))
        return outputs

    def failure(self, number: int) -> Failed:
        """What a request failed with, whatever came before it."""
        while (one := self.read()).kind == Kind.OUTPUT:
            pass
        assert (one.kind, one.number) == (Kind.FAILED, number)
        return read_failure(one.payload or b"")

    def is_closed(self) -> bool:
        """Whether the server ends the link."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        return True


@contextmanager
def link(server: ServerProcess, *headers: str) -> Iterator[Client]:
    client = Client(server, *headers)
    assert client.head.startswith(b"HTTP/1.1 101"), client.head
    try:
        yield client
    finally:
        client.socket.close()


def ids_of(server: ServerProcess, text: str) -> list[int]:
    answer = server.http.post("/tokenize", json={"prompt": text, "add_special_tokens": False})
    ids: list[int] = answer.json()["tokens"]
    return ids


def text_of(server: ServerProcess, outputs: list[StepOutput]) -> str:
    ids = [token_id for output in outputs for token_id in output.token_ids]
    text: str = server.http.post("/detokenize", json={"tokens": ids}).json()["prompt"]
    return text


def test_answers_are_those_of_http(scripted: ServerProcess) -> None:
    prompt = ids_of(scripted, HELLO)
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 1000, "return_token_ids": True}
    expected = scripted.http.post("/v1/completions", json=body).json()["choices"][0]
    with link(scripted) as client:
        for number in range(3):
            client.submit(number, prompt)
            outputs = client.outputs(number)
            assert [token_id for output in outputs for token_id in output.token_ids] == expected["token_ids"]
            assert outputs[-1].finish_reason is FinishReason.STOP and expected["finish_reason"] == "stop"
        assert outputs[0].cached_tokens == len(prompt) - 1
        client.submit(9, prompt, sampling={"max_tokens": 3})
        outputs = client.outputs(9)
        assert (sum(len(one.token_ids) for one in outputs), outputs[-1].finish_reason) == (3, FinishReason.LENGTH)


def test_requests_share_the_link_and_each_may_be_ended(scripted: ServerProcess) -> None:
    hello, endless = ids_of(scripted, HELLO), ids_of(scripted, ENDLESS)
    with link(scripted) as client:
        for number in range(5):
            client.submit(number, endless, sampling={"max_tokens": 5000})
        eventually(lambda: scripted.health()["running"] == 5)
        for number in (3, 3, 77, 2**64 - 1):
            client.send(Kind.ABORT, number)
        eventually(lambda: scripted.health()["running"] == 4)
        client.submit(3, hello)
        while (one := client.read()).number != 3:
            pass
        assert one.kind == Kind.OUTPUT
    # The rest ends with the link.
    eventually(lambda: scripted.health()["running"] == 0)


def test_requests_are_logged_and_counted_as_any(start_upstream: StartServer) -> None:
    server = start_upstream("--log-prompts")
    prompt = ids_of(server, HELLO)
    with link(server) as client:
        client.submit(1, prompt)
        client.outputs(1)
        client.submit(2, [])
        assert client.failure(2).code == "empty_prompt"
        line = f"POST path={PATH} status=200 client=anyone model={MODEL} prompt_tokens={len(prompt)} cached_tokens="
        eventually(lambda: line in server.log and f"GET path={PATH} status=101" in server.log)
        assert "request_id=req-7" in server.log and "finish_reason=stop" in server.log
        assert "error=empty_prompt" in server.log
        assert "answer request_id=req-7" in server.log and "Ask me about the weather" in server.log
        for status, count in ((200, 1), (400, 1), (101, 1)):
            name = f'deepinfer_requests_total{{route="{PATH}",status="{status}"}}'
            assert server.gauge(name) == count
        assert server.gauge("deepinfer_prompt_tokens_total") == len(prompt)
        assert server.gauge("deepinfer_completion_tokens_total") > 10
        # The one that asks.
        assert server.gauge("deepinfer_http_requests_in_flight") == 1


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("rest", {"data": b"12345"}, "invalid_type", "4 bytes"),
    ("id", {"ids": [129280]}, "invalid_token_id", "129280"),
    ("huge id", {"ids": [2**32 - 1]}, "invalid_token_id", "4294967295"),
    ("empty", {"ids": []}, "empty_prompt", "at least one"),
    ("tokens", {"sampling": {"max_tokens": 0}}, "invalid_sampling", "max_tokens is 0"),
    ("context", {"sampling": {"max_tokens": 2**40}}, "context_length_exceeded", "context length"),
    ("nan", {"sampling": {"temperature": math.nan}}, "invalid_sampling", "temperature"),
    ("infinity", {"sampling": {"temperature": math.inf}}, "invalid_sampling", "temperature"),
    ("top_p", {"sampling": {"top_p": -1.0}}, "invalid_sampling", "top_p"),
    ("seed", {"sampling": {"seed": 2**63}}, "out_of_range", "seed"),
    ("logprobs", {"sampling": {"top_logprobs": 21}}, "out_of_range", "top_logprobs"),
    ("stops", {"sampling": {"stop_token_ids": (5,) * 65}}, "array_too_long", "stop_token_ids"),
    ("stop", {"sampling": {"stop_token_ids": (-1,)}}, "invalid_token_id", "stop_token_ids"),
    ("bias", {"sampling": {"logit_bias": {5: 101.0}}}, "invalid_sampling", "logit_bias"),
    ("bias id", {"sampling": {"logit_bias": {-5: 1.0}}}, "invalid_token_id", "logit_bias"),
]
UNREADABLE = {
    "nothing": b"",
    "garbage": b"\xc1\xff",
    "half": pack(Submit("a", b"1234", SamplingParams(max_tokens=5)))[:-3],
    "deep": b"\x91" * 200_000,
    "no map": msgspec.msgpack.encode([1, 2, 3]),
    "wrong type": msgspec.msgpack.encode({"request_id": "a", "ids": "text", "sampling": {"max_tokens": 5}}),
    "deep inside": b"\x81\xa1x" + b"\x91" * 200_000,
}


def test_what_is_wrong_with_a_request_is_its_own_fault(scripted: ServerProcess) -> None:
    hello, endless = ids_of(scripted, HELLO), ids_of(scripted, ENDLESS)
    with link(scripted) as client, link(scripted) as other:
        other.submit(0, endless, sampling={"max_tokens": 5000})
        for number, (name, fields, code, words) in enumerate(BAD):
            client.submit(number, **{"ids": hello} | fields)
            failed = client.failure(number)
            assert (failed.status, failed.code) == (400, code), name
            assert words in failed.message, name
        for number, (name, payload) in enumerate(UNREADABLE.items()):
            client.send(Kind.SUBMIT, number, payload)
            failed = client.failure(number)
            assert (failed.status, failed.code) == (400, "invalid_messagepack"), name
        client.submit(99, hello)
        assert client.outputs(99)
        assert other.read().kind == Kind.OUTPUT
    eventually(lambda: scripted.health()["running"] == 0)


def test_a_payload_that_is_too_long_is_passed_over(start_upstream: StartServer) -> None:
    server = start_upstream("--max-body-bytes", "4096")
    hello = ids_of(server, HELLO)
    with link(server) as client:
        client.send(Kind.SUBMIT, 1, b"x" * 100_000)
        failed = client.failure(1)
        assert (failed.status, failed.code, "4096" in failed.message) == (413, "request_too_large", True)
        client.submit(2, hello)
        assert client.outputs(2)


NO_FRAMES = {
    "http": b"POST /v1/completions HTTP/1.1\r\nhost: x\r\n\r\n",
    "zeros": bytes(64),
    "an answer": frame(Kind.OUTPUT, 1),
    "the same number": frame(Kind.SUBMIT, 0, pack(Submit("a", b"1234", SamplingParams(max_tokens=5)))),
    "unknown kind": b"\xff" * 100,
}


@pytest.mark.parametrize("name", NO_FRAMES)
def test_what_are_no_frames_ends_its_link_and_nothing_else(scripted: ServerProcess, name: str) -> None:
    endless = ids_of(scripted, ENDLESS)
    with link(scripted) as client, link(scripted) as other:
        other.submit(0, endless, sampling={"max_tokens": 5000})
        client.submit(0, endless, sampling={"max_tokens": 5000})
        eventually(lambda: scripted.health()["running"] == 2)
        client.socket.sendall(NO_FRAMES[name])
        assert client.is_closed()
        eventually(lambda: scripted.health()["running"] == 1)
        assert other.read().kind == Kind.OUTPUT
    eventually(lambda: scripted.health()["running"] == 0)


def test_a_link_that_ends_within_a_frame_leaves_nothing_behind(scripted: ServerProcess) -> None:
    handles = len(list(Path(f"/proc/{scripted.process.pid}/fd").iterdir()))
    for length in (1, 12, 13, 40):
        with link(scripted) as client:
            client.socket.sendall(frame(Kind.SUBMIT, 1, b"x" * 1000)[:length])
    eventually(lambda: len(list(Path(f"/proc/{scripted.process.pid}/fd").iterdir())) <= handles)
    assert "Traceback" not in scripted.log


def test_who_does_not_read_makes_its_own_answers_wait(scripted: ServerProcess) -> None:
    endless = ids_of(scripted, ENDLESS)
    with link(scripted) as client:
        client.submit(1, endless, sampling={"max_tokens": 5000})
        client.submit(2, endless, sampling={"max_tokens": 5000})
        assert client.read().kind == Kind.OUTPUT
        client.send(Kind.PAUSE, 1)
        client.send(Kind.PAUSE, 1)
        seen: list[int] = []
        while len(seen) < 20 or 1 in seen[-10:]:
            seen.append(client.read().number)
        client.send(Kind.RESUME, 1)
        while client.read().number != 1:
            pass
    eventually(lambda: scripted.health()["running"] == 0)


@pytest.mark.parametrize(
    ("flags", "headers", "model", "status", "code"),
    [
        (["--api-key", "sk-right"], [], MODEL, 401, "invalid_api_key"),
        (["--api-key", "sk-right"], ["authorization: Bearer sk-wrong"], MODEL, 401, "invalid_api_key"),
        ([], [], "another", 404, "model_not_found"),
        ([], [], "", 404, "model_not_found"),
    ],
)
def test_a_link_is_refused_as_any_request(
    start_upstream: StartServer, flags: list[str], headers: list[str], model: str, status: int, code: str
) -> None:
    client = Client(start_upstream(*flags), *headers, model=model)
    assert client.head.startswith(b"HTTP/1.1 %d" % status)
    assert code in client.socket.recv(4096).decode()
    client.socket.close()


def test_without_the_offer_there_is_no_link(scripted: ServerProcess) -> None:
    for offer in ({}, {"upgrade": "h2c", "connection": "upgrade"}, {"upgrade": "deepinfer-link-0"}):
        answer = scripted.http.get(PATH, params={"model": MODEL}, headers=offer)
        assert (answer.status_code, answer.json()["error"]["code"]) == (426, "upgrade_required")
        assert answer.headers["upgrade"] == PROTOCOL
    assert scripted.http.post(PATH).status_code == 405


def test_a_key_that_is_taken_back_opens_nothing_any_more(start_upstream: StartServer, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("sk-one\nsk-two\n")
    server = start_upstream("--api-key-file", str(keys))
    server.http.headers["authorization"] = "Bearer sk-two"
    hello = ids_of(server, HELLO)
    with link(server, "authorization: Bearer sk-one") as client:
        client.submit(1, hello)
        assert client.outputs(1)
        keys.write_text("sk-two\n")
        time.sleep(1.2)
        client.submit(2, hello)
        assert (failed := client.failure(2)).status == 401 and failed.code == "invalid_api_key"


def test_limits_hold_for_what_comes_over_links(start_upstream: StartServer) -> None:
    server = start_upstream("--concurrent-requests", "2")
    endless = ids_of(server, ENDLESS)
    with link(server) as client:
        for number in range(3):
            client.submit(number, endless, sampling={"max_tokens": 5000})
        failed = client.failure(2)
        assert (failed.status, failed.code) == (429, "concurrency_limit_exceeded")
        client.send(Kind.ABORT, 0)
        eventually(lambda: server.health()["running"] == 1)
        client.submit(5, endless, sampling={"max_tokens": 5000})
        eventually(lambda: server.health()["running"] == 2)


def test_a_request_may_be_cancelled_by_its_id(scripted: ServerProcess) -> None:
    with link(scripted) as client:
        client.submit(1, ids_of(scripted, ENDLESS), sampling={"max_tokens": 5000})
        assert client.read().kind == Kind.OUTPUT
        assert scripted.http.delete("/v1/requests/req-7").json()["cancelled"] == 1
        assert (client.failure(1).status, scripted.health()["running"]) == (499, 0)


@pytest.mark.parametrize("seconds", ["20", "0.5"])
def test_at_the_end_answers_finish_or_are_told(start_upstream: StartServer, seconds: str) -> None:
    server = start_upstream("--shutdown-seconds", seconds)
    hello, endless = ids_of(server, HELLO), ids_of(server, ENDLESS)
    with link(server) as client, link(server) as idle:
        count = 100 if seconds == "20" else 5000
        client.submit(1, endless, sampling={"max_tokens": count})
        assert client.read().kind == Kind.OUTPUT
        stopped: list[int] = []
        thread = threading.Thread(target=lambda: stopped.append(server.stop(signal.SIGTERM)))
        thread.start()
        # One without a request is told so, and closed.
        assert idle.read().kind == Kind.LEAVING and idle.is_closed()
        while (one := client.read()).kind != Kind.LEAVING:
            pass
        client.submit(2, hello)
        ends: dict[int, Frame] = {}
        while len(ends) < 2:
            one = client.read()
            if one.kind == Kind.FAILED or read_output(one.payload or b"").finish_reason is not None:
                ends[one.number] = one
        assert read_failure(ends[2].payload or b"").code == "server_shutting_down"
        if seconds == "20":
            assert read_output(ends[1].payload or b"").finish_reason is FinishReason.LENGTH
        else:
            assert read_failure(ends[1].payload or b"").code == "server_shutting_down"
        assert client.is_closed()
        thread.join()
    assert stopped == [0]


def test_requests_over_http_go_on_beside_links(scripted: ServerProcess) -> None:
    with link(scripted) as client:
        client.submit(1, ids_of(scripted, ENDLESS), sampling={"max_tokens": 5000})
        assert scripted.http.post("/v1/chat/completions", json=chat_body("Hello")).status_code == 200
        assert client.read().kind == Kind.OUTPUT
