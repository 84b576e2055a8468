"""The PyTorch engine behind the asyncio `Engine` protocol: owns the engine's thread and the streams of its requests.

The event loop's thread puts commands into an inbox and never waits for a step; the engine's thread is the only one
that touches `EngineLoop`, and hands all outputs of a step over in one callback. Knows nothing of text or HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import torch

from deepinfer.backends.admission import check_request
from deepinfer.backends.desk import Abort, Desk, Inbox, Stop
from deepinfer.backends.outbox import Outbox
from deepinfer.backends.stream import OutboxStream
from deepinfer.config import EngineConfig
from deepinfer.core import Health, ModelDescription, OutputStream, Request, Vocabulary
from deepinfer.engine import EngineLoop, Outputs
from deepinfer.errors import EngineError
from deepinfer.model.checkpoint import load_model, read_token_map
from deepinfer.model.config import ModelConfig
from deepinfer.model.initial import randomize
from deepinfer.model.token_map import token_map as join_tokens
from deepinfer.model.transformer import Transformer
from deepinfer.structured.compiler import GrammarCompiler

logger = logging.getLogger(__name__)

# Answers of the random model are then about as peaked as a trained model's.
LOGIT_DEVIATION = 5.0


class NativeEngine:
    """`Engine` that runs a model in this process. Call its methods from the event loop that called `start`.

    `vocabulary` is asked for once, by `start`; without one, requests with a grammar are refused.
    """

    def __init__(
        self,
        config: EngineConfig,
        model: ModelConfig,
        checkpoint: Path | None = None,
        token_texts: Callable[[], list[tuple[str, str]] | None] = lambda: None,
        vocabulary: Callable[[], Vocabulary | None] = lambda: None,
    ) -> None:
        """Serve a model of shape `model`: the one in the directory `checkpoint`, or without one random weights.

        `token_texts` gives text and raw piece of each token, for a model with Engram whose checkpoint has no token map.
        """
        self._config = config
        self._model = model
        self._checkpoint = checkpoint
        self._token_texts = token_texts
        self._vocabulary = vocabulary
        self._grammars: GrammarCompiler | None = None
        self._inbox: Inbox = SimpleQueue()
        self._outboxes: dict[str, Outbox] = {}
        self._thread: Thread | None = None
        # Why no request is taken, or None while they are.
        self._outage: EngineError | None = EngineError("the engine is not started", code="engine_stopped")
        self._running_count = 0
        self._cache_bytes = 0
        # How much of the checkpoint is loaded, while it is.
        self._progress: float | None = None

    async def start(self) -> None:
        """Build the model and start the engine's thread. Does nothing when it runs already.

        Preparing grammars takes about 0.4 s in which no thread of the process runs, so it is done here and not later.
        """
        if self._thread is not None:
            return
        self._inbox = SimpleQueue()
        try:
            engine, self._grammars = await asyncio.to_thread(self._build)
        finally:
            self._progress = None
        arguments = (Desk(engine, self._inbox, self._grammars), asyncio.get_running_loop())
        # A daemon, so that a process whose event loop died can end.
        self._thread = Thread(target=self._run, args=arguments, name="deepinfer-engine", daemon=True)
        self._thread.start()
        self._outage = None

    async def stop(self) -> None:
        """End every sequence with `FinishReason.ABORT`, wait for the thread and free the model."""
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        self._outage = EngineError("the engine is stopped", code="engine_stopped")
        self._inbox.put(Stop())
        await asyncio.to_thread(thread.join)
        if self._grammars is not None:
            self._grammars.close()

    def submit(self, request: Request) -> OutputStream:
        """Queue a request and stream its outputs. Raises `EngineError` for a request that cannot run."""
        if self._outage is not None:
            raise EngineError(str(self._outage), code=self._outage.code)
        check_request(request, model=self.describe(), in_flight=self._outboxes)
        if request.grammar is not None and self._grammars is None:
            raise EngineError("this engine takes no grammars", code="grammar_not_supported", client_fault=True)
        outbox = self._outboxes[request.request_id] = Outbox()
        self._inbox.put(request)
        return OutboxStream(outbox, abandon=partial(self._abandon, request.request_id, outbox))

    def abort(self, request_id: str) -> None:
        """End a request before the next step and free its blocks. Unknown ids are ignored."""
        self._inbox.put(Abort(request_id))

    def describe(self) -> ModelDescription:
        """Describe the served model."""
        return ModelDescription(
            name=self._config.name,
            recipe_version=self._config.recipe_version,
            vocabulary_size=self._model.vocab_size,
            context_length=self._config.context_length,
        )

    def health(self) -> Health:
        """Report the state as of the last step."""
        return Health(
            ready=self._outage is None,
            running=self._running_count,
            waiting=max(0, len(self._outboxes) - self._running_count),
            cache_bytes=self._cache_bytes,
            detail="" if self._outage is None else str(self._outage),
            progress=self._progress,
        )

    def _abandon(self, request_id: str, outbox: Outbox) -> None:
        # The request may have ended unread, and its id may belong to another by now.
        if self._outboxes.get(request_id) is outbox:
            self.abort(request_id)

    def _build(self) -> tuple[EngineLoop, GrammarCompiler | None]:
        return EngineLoop(self._config, self._build_model()), self._build_grammars()

    def _build_model(self) -> Transformer:
        if self._checkpoint is None:
            return randomize(Transformer(self._model), seed=self._config.weight_seed, logit_deviation=LOGIT_DEVIATION)
        token_map = read_token_map(self._checkpoint)
        if token_map is None and self._model.engram_layer_ids:
            texts = self._token_texts()
            token_map = None if texts is None else join_tokens(texts)
        return load_model(self._checkpoint, config=self._model, token_map=token_map, progress=self._show_progress)

    def _show_progress(self, done: int, total: int) -> None:
        self._progress = done / total
        # A line for every tenth.
        if done * 10 // total > (done - 1) * 10 // total:
            logger.info("loaded %d of %d tensors", done, total)

    def _build_grammars(self) -> GrammarCompiler | None:
        vocabulary = self._vocabulary()
        if vocabulary is None:
            return None
        if len(vocabulary.token_bytes) != self._model.vocab_size:
            raise EngineError(
                f"the tokenizer has {len(vocabulary.token_bytes)} tokens and the model {self._model.vocab_size}",
                code="invalid_configuration",
            )
        grammars = GrammarCompiler(vocabulary)
        grammars.warm()
        return grammars

    def _run(self, desk: Desk, event_loop: asyncio.AbstractEventLoop) -> None:
        """Body of the engine's thread."""
        engine = desk.engine
        try:
            torch.set_num_threads(self._config.torch_threads)
            stopping = False
            while not stopping:
                outputs, stopping = desk.obey()
                if engine.has_work:
                    outputs += engine.step()
                gauges = (engine.running_count, engine.cache_bytes)
                event_loop.call_soon_threadsafe(self._deliver, outputs, *gauges)
        except Exception as error:
            logger.exception("the engine's thread failed")
            reason = f"the engine failed with {type(error).__name__}; its log has the details, restart it"
            event_loop.call_soon_threadsafe(self._fail, EngineError(reason, code="engine_failed"))
        finally:
            engine.close()

    def _deliver(self, outputs: Outputs, running_count: int, cache_bytes: int) -> None:
        self._running_count, self._cache_bytes = running_count, cache_bytes
        for request_id, output in outputs:
            if isinstance(output, EngineError):
                self._outboxes.pop(request_id).fail(output)
                continue
            self._outboxes[request_id].put(output)
            if output.finish_reason is not None:
                del self._outboxes[request_id]

    def _fail(self, error: EngineError) -> None:
        self._outage = error
        for outbox in self._outboxes.values():
            outbox.fail(error)
        self._outboxes.clear()
        self._running_count = self._cache_bytes = 0
