"""Conversations of coding agents, generated: the same seed gives the same ones.

Sizes of instructions, tools and first messages are those of recorded requests of Claude Code (Messages) and Codex
(Responses); for Chat Completions, of which none was recorded, those of Claude Code. Words are filler. All conversations
of a protocol begin with the same instructions and tools, those of a project go on with the same notes, and each turn
repeats all turns before it, answers included. The sizes of tool results, of which the records have two, are assumed:
log-normal with a median of 1,500 characters.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from deepinfer.bench.answers import Answer, Protocol

TOOL: Final = "read_file"
# A turn's last word says how long an answer it wants, in `LENGTHS`' terms; the rules of scripted upstreams match it.
LENGTHS: Final[Mapping[str, int]] = {"brief": 100, "plain": 200, "long": 300}
_WORDS: Final = (
    "read write list check the field of a file path before each test and note which line value name task part build "
    "while it holds clear results return import class self None def if error module function parser token stream "
    "buffer index config server request answer cache limit number { } ( ) = == != -> : , . # 0 1 42 4096 _id _count"
).split()


@dataclass(frozen=True, slots=True)
class _Shape:
    """Characters of what an agent sends first, and of each tool's JSON."""

    instructions: int
    project_notes: int
    tools: tuple[int, ...]


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


_CLAUDE_CODE: Final = _Shape(
    instructions=5_900,
    project_notes=6_100,
    tools=_sizes(
        "2539 2666 3993 445 288 998 3754 2503 1664 1667 1918 3709 "
        "1179 2129 2839 1034 1196 1582 558 3530 770 869 20786 663"
    ),
)
_CODEX: Final = _Shape(instructions=17_200, project_notes=2_600, tools=_sizes("1591 818 1416 390 11094 297 785 2195"))
_SHAPES: Final = {Protocol.CHAT: _CLAUDE_CODE, Protocol.MESSAGES: _CLAUDE_CODE, Protocol.RESPONSES: _CODEX}
_RESULT_MEDIAN: Final = 1_500
_RESULT_SPREAD: Final = 1.0
_LONGEST_RESULT: Final = 20_000
_TASK: Final = 160


class Traffic:
    """Deals out conversations, protocols in turn. `scale` shrinks every size; below 1 it is no agent's traffic."""

    def __init__(self, seed: int, model: str, *, projects: int = 20, scale: float = 1.0) -> None:
        self._seed = seed
        self._model = model
        self._projects = projects
        self._scale = scale
        self._numbers = itertools.count()
        self._openings = {protocol: self._opening(protocol) for protocol in Protocol}

    def conversation(self) -> Conversation:
        """Begin the next conversation."""
        number = next(self._numbers)
        protocol = list(Protocol)[number % len(Protocol)]
        project = number % self._projects
        notes = self._filler(f"project {protocol} {project}", _SHAPES[protocol].project_notes)
        words = random.Random(f"{self._seed} conversation {number}")
        body = self._openings[protocol] | {"model": self._model}
        return Conversation(protocol, number, body, notes, words, scale=self._scale)

    def _opening(self, protocol: Protocol) -> dict[str, Any]:
        """What all conversations of a protocol begin with."""
        shape = _SHAPES[protocol]
        instructions = self._filler(f"instructions {protocol}", shape.instructions)
        tools = [self._tool(protocol, place, size) for place, size in enumerate(shape.tools)]
        match protocol:
            case Protocol.CHAT:
                wrapped = [{"type": "function", "function": tool} for tool in tools]
                options = {"stream": True, "stream_options": {"include_usage": True}}
                return {"messages": [{"role": "system", "content": instructions}], "tools": wrapped, **options}
            case Protocol.RESPONSES:
                typed = [{"type": "function", "strict": False, **tool} for tool in tools]
                developer = {"type": "message", "role": "developer", "content": instructions}
                options = {"stream": True, "store": False, "reasoning": {"summary": "auto"}}
                return {"input": [developer], "tools": typed, **options, "include": ["reasoning.encrypted_content"]}
            case Protocol.MESSAGES:
                renamed = [
                    {"input_schema" if name == "parameters" else name: tool[name] for name in tool} for tool in tools
                ]
                options = {"stream": True, "max_tokens": 32_000, "thinking": {"type": "adaptive"}}
                return {"system": [{"type": "text", "text": instructions}], "messages": [], "tools": renamed, **options}

    def _tool(self, protocol: Protocol, place: int, size: int) -> dict[str, Any]:
        # Half of a tool is its description, half the descriptions of its parameters.
        text = [self._filler(f"tool {protocol} {place} {part}", size // 2 - 60) for part in range(2)]
        properties = {"path": {"type": "string", "description": text[1]}}
        parameters = {"type": "object", "properties": properties, "required": ["path"]}
        return {"name": TOOL if place == 0 else f"tool_{place}", "description": text[0], "parameters": parameters}

    def _filler(self, name: str, size: int) -> str:
        return filler(random.Random(f"{self._seed} {name}"), int(size * self._scale))


class Conversation:
    """One agent at work. Owns its history; `body` is the request of the present turn."""

    def __init__(
        self, protocol: Protocol, number: int, body: dict[str, Any], notes: str, words: random.Random, *, scale: float
    ) -> None:
        self.protocol = protocol
        self.number = number
        self.turn = 0
        self._words = words
        self._scale = scale
        self._field = "input" if protocol is Protocol.RESPONSES else "messages"
        task = f"Task {number}: {filler(words, _TASK)} {self._wish()}"
        first = {"role": "user", "content": f"{notes}\n\n{task}"}
        self._items = [*body[self._field], {"type": "message", **first} if protocol is Protocol.RESPONSES else first]
        self._body = body

    def body(self) -> dict[str, Any]:
        """The present turn's request."""
        return self._body | {self._field: list(self._items)}

    def advance(self, answer: Answer) -> None:
        """Go on to the next turn: the answer becomes history, and each of its calls gets a result."""
        self.turn += 1
        self._items += answer.history
        results = [self._result(call_id) for call_id in answer.call_ids]
        if not results:
            self._items.append({"role": "user", "content": f"{filler(self._words, _TASK)} {self._wish()}"})
        elif self.protocol is Protocol.MESSAGES:
            self._items.append({"role": "user", "content": results})
        else:
            self._items += results

    def _result(self, call_id: str) -> dict[str, Any]:
        size = min(_LONGEST_RESULT, _RESULT_MEDIAN * self._words.lognormvariate(0.0, _RESULT_SPREAD))
        text = f"{filler(self._words, int(size * self._scale))} {self._wish()}"
        match self.protocol:
            case Protocol.CHAT:
                return {"role": "tool", "tool_call_id": call_id, "content": text}
            case Protocol.RESPONSES:
                return {"type": "function_call_output", "call_id": call_id, "output": text}
            case Protocol.MESSAGES:
                return {"type": "tool_result", "tool_use_id": call_id, "content": text}

    def _wish(self) -> str:
        return f"answer-{self._words.choice(list(LENGTHS))}"


def filler(words: random.Random, size: int) -> str:
    """Words of about `size` characters in all, at least one."""
    text = [words.choice(_WORDS)]
    length = len(text[0])
    while length < size:
        text.append(words.choice(_WORDS))
        length += len(text[-1]) + 1
    return " ".join(text)


def arrivals(rate: float, seconds: float, seed: int) -> Iterator[float]:
    """Times of a Poisson process, in seconds from its start: `rate` arrivals a second on average, for `seconds`."""
    if not rate > 0:
        raise ValueError(f"rate is {rate}; it must be above 0")
    clock = random.Random(f"{seed} arrivals")
    at = clock.expovariate(rate)
    while at < seconds:
        yield at
        at += clock.expovariate(rate)
