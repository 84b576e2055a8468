"""What the engine's thread is told to do, and the doing of it.

A grammar that the request fails with is compiled before the request starts. One that may be left out, and sleeps, costs
nothing until it wakes: it is compiled then, and the request waits for it while the others go on.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeAlias

from deepinfer.core import FinishReason, Request, StepOutput
from deepinfer.engine import EngineLoop, Outputs
from deepinfer.errors import EngineError
from deepinfer.structured.compiler import Compiled, GrammarCompiler
from deepinfer.structured.constraint import Constraint
from deepinfer.structured.guide import Guide

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompiledFor:
    """The grammar of a request, or what is wrong with it."""

    request: Request
    grammar: Compiled


@dataclass(frozen=True, slots=True)
class Abort:
    """End a request."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End every request, and the thread."""


Inbox: TypeAlias = SimpleQueue[Request | CompiledFor | Abort | Stop]


class Desk:
    """Carries out commands, in the engine's thread. Owns the requests whose grammars are being compiled."""

    def __init__(self, engine: EngineLoop, inbox: Inbox, grammars: GrammarCompiler | None) -> None:
        self.engine = engine
        self._inbox = inbox
        self._grammars = grammars
        self._compiling: dict[str, Request] = {}

    def obey(self) -> tuple[Outputs, bool]:
        """Carry out all commands in the inbox, waiting for one when there is nothing else to do; True means stop."""
        outputs: Outputs = []
        for request_id, request in self.engine.parked.items():
            if request_id not in self._compiling:
                self._compile(request)
        while True:
            try:
                command = self._inbox.get(block=not self.engine.has_work and not outputs)
            except Empty:
                return outputs, False
            match command:
                case Request():
                    self._add(command)
                case CompiledFor(request, grammar):
                    outputs += self._take(request, grammar)
                case Abort(request_id):
                    outputs += self._abort(request_id)
                case Stop():
                    return outputs + self._abort_all(), True

    def _add(self, request: Request) -> None:
        grammar = request.grammar
        if grammar is not None and (grammar.required or grammar.trigger is None):
            self._compile(request)
        else:
            self.engine.add(request, None if grammar is None and request.thinking_limit is None else _guide(request))

    def _compile(self, request: Request) -> None:
        assert request.grammar is not None and self._grammars is not None, "the engine refuses grammars it cannot read"
        self._compiling[request.request_id] = request
        compiled = self._grammars.compile(request.grammar.text)
        compiled.add_done_callback(lambda grammar: self._inbox.put(CompiledFor(request, grammar)))

    def _take(self, request: Request, compiled: Compiled) -> Outputs:
        # The request may have been aborted, and its id may belong to another by now.
        if self._compiling.get(request.request_id) is not request or request.grammar is None:
            return []
        del self._compiling[request.request_id]
        matcher = None
        try:
            matcher = compiled.result().matcher()
        except EngineError as error:
            if request.grammar.required:
                # One error may be the answer to many requests, and each raises its own.
                return [(request.request_id, error.about(request.grammar.field))]
            logger.warning("%s goes on without its grammar: %s", request.request_id, error)
        if request.request_id in self.engine.parked:
            self.engine.resume(request.request_id, matcher)
        else:
            guide = _guide(request)
            guide.provide(matcher)
            self.engine.add(request, guide)
        return []

    def _abort(self, request_id: str) -> Outputs:
        outputs = self.engine.abort(request_id)
        if self._compiling.pop(request_id, None) is not None and not outputs:
            return [(request_id, StepOutput(token_ids=(), finish_reason=FinishReason.ABORT))]
        return outputs

    def _abort_all(self) -> Outputs:
        compiling = [output for request_id in list(self._compiling) for output in self._abort(request_id)]
        return compiling + self.engine.abort_all()


def _guide(request: Request) -> Constraint:
    return Guide(request.grammar, request.thinking_limit, ending_ids=request.sampling.stop_token_ids)
