"""A process that compiles grammars only to see what becomes of it: `python -m deepinfer.structured.checker`.

llguidance recurses as deep as a grammar nests and takes time that grows faster than its length, and neither a full
stack nor a thread that runs can be taken back. Here both end a process that holds nothing. Every message on standard
input and output has its length before it, 4 bytes, big-endian. The first one describes the vocabulary; every later one
is a grammar, answered with what is wrong with it, or with nothing.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO, Final

from llguidance import LLMatcher, LLTokenizer

from deepinfer.structured.limits import (
    CHECK_MEMORY_BYTES,
    CHECK_PROCESSOR_SECONDS,
    CHECK_STACK_BYTES,
    parser_limits,
)
from deepinfer.structured.tokenizer import build_tokenizer

_BYTES: Final = [bytes([value]) for value in range(256)]


def write_message(stream: IO[bytes], data: bytes) -> None:
    """Send one message. Raises OSError when the other side is gone."""
    stream.write(len(data).to_bytes(4, "big") + data)
    stream.flush()


def read_message(stream: IO[bytes]) -> bytes | None:
    """Receive one message; None when the other side is gone."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    length = int.from_bytes(head, "big")
    data = stream.read(length)
    return data if len(data) == length else None


def vocabulary_message(size: int, control_ids: Sequence[int], end_token_id: int) -> bytes:
    """Write the first message."""
    return json.dumps({"size": size, "control_ids": list(control_ids), "end_token_id": end_token_id}).encode()


def serve(source: IO[bytes], target: IO[bytes]) -> None:
    """Check grammars until the other side is gone."""
    description = read_message(source)
    if description is None:
        return
    tokenizer = _byte_tokenizer(**json.loads(description))
    while (text := read_message(source)) is not None:
        _limit_time()
        write_message(target, check(tokenizer, text.decode()).encode())


def check(tokenizer: LLTokenizer, text: str) -> str:
    """Return why a grammar does not compile, or an empty string."""
    matcher = LLMatcher(tokenizer, text, log_level=0, limits=parser_limits())
    fault = matcher.get_error()
    if not fault:
        # For what it may cost; what it finds, the other side will find too.
        matcher.compute_bitmask()
    return fault


def _byte_tokenizer(size: int, control_ids: Sequence[int], end_token_id: int) -> LLTokenizer:
    """A vocabulary with the same control ids, but a token per byte: what is checked here does not depend on more.

    The control tokens have no spelling, so a grammar can ask for them by id only.
    """
    controls = frozenset(control_ids)
    token_bytes = [b""] * size
    places = [token_id for token_id in range(size) if token_id not in controls][:256]
    for token_id, byte in zip(places, _BYTES, strict=False):
        token_bytes[token_id] = byte
    for token_id in controls:
        token_bytes[token_id] = b"control %d" % token_id
    return build_tokenizer(
        token_bytes, controls, end_token_id, lambda text: [places[byte] for byte in text.encode() if byte < len(places)]
    )


def _limit_time() -> None:
    """Let the system end this process if it computes for too long from now on."""
    if sys.platform != "win32":
        import resource

        seconds = math.ceil(time.process_time()) + CHECK_PROCESSOR_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))


def _limit_memory() -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (CHECK_MEMORY_BYTES, CHECK_MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Serve on standard input and output, on a thread with a stack of known size."""
    _limit_memory()
    threading.stack_size(CHECK_STACK_BYTES)
    thread = threading.Thread(target=serve, args=(sys.stdin.buffer, sys.stdout.buffer))
    thread.start()
    thread.join()


if __name__ == "__main__":
    main()
