"""What every handler of one server shares: built once, handed in, never a global."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec

import deepseek_recipe as recipe
from deepinfer.backends.admission import unknown_id
from deepinfer.core import Engine, ModelDescription
from deepinfer.prompt_format import prompt_format
from deepinfer.server.access import Keyring
from deepinfer.server.config import ServerConfig
from deepinfer.server.errors import HttpError
from deepinfer.server.generation import LiveGenerations
from deepinfer.server.images.resolve import ImageReader
from deepinfer.server.limits import ClientLimits
from deepinfer.server.metrics import Metrics
from deepinfer.server.names import ModelNames
from deepinfer.server.responses.service import Lookup, Responses
from deepinfer.server.responses.store.interface import ResponseStore

# Names that stand for a served one and were asked for lately.
_ALIASES_KEPT: Final = 256
# Texts of prompts and their ids, so that history which comes again is not tokenised again.
_RANGE_CACHE_BYTES: Final = 64 * 1024 * 1024
_BEGIN: Final = "<｜begin▁of▁sentence｜>"


class _Named(msgspec.Struct):
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of a running server."""

    engine: Engine
    model: ModelDescription
    config: ServerConfig
    tokenizer: recipe.Tokenizer
    names: ModelNames
    options: Callable[[str], recipe.Options]
    keyring: Keyring
    limits: ClientLimits
    metrics: Metrics
    live: LiveGenerations
    responses: Responses
    images: ImageReader
    fingerprint: str

    def encode(self, body: bytes, protocol: str, *, lookup: Lookup | None = None) -> recipe.Encoded:
        """Encode a body of one of the chat protocols. Raises `RequestError`."""
        try:
            return recipe.encode(body, protocol, options=self.options(""), lookup=lookup)
        except recipe.RequestError as error:
            if error.code != "model_not_found":
                raise
            name = msgspec.json.decode(body, type=_Named).model
            if self.names.find(name) is None:
                raise
            return recipe.encode(body, protocol, options=self.options(name), lookup=lookup)

    def text_ids(self, text: str, *, begin: bool) -> list[int]:
        """Encode a text whose control tokens are meant; with `begin` it starts with the one that starts all prompts."""
        ids = self.tokenizer.encode(text, special=True)
        return ids if not begin or ids[:1] == [self.begin_id] else [self.begin_id, *ids]

    @property
    def begin_id(self) -> int:
        """Id of the token that starts all prompts."""
        return self.control_id(_BEGIN)

    def control_id(self, spelling: str) -> int:
        """Id of a control token that every version has."""
        found = self.tokenizer.special_id(spelling)
        assert found is not None
        return found

    def check_ids(self, ids: Sequence[int], place: str) -> None:
        """Raise a 400 for ids that are not in the vocabulary."""
        if not ids:
            return
        size = min(self.tokenizer.vocabulary_size, self.model.vocabulary_size)
        if (id := unknown_id(ids, size)) is not None:
            message = f"{place} holds the token id {id}; ids go from 0 to {size - 1}"
            raise HttpError(400, "invalid_token_id", message, param=place)

    def check_model(self, name: str) -> None:
        """Raise a 404 unless `name` is served or stands for a served one."""
        if self.names.find(name) is None:
            served = ", ".join(self.config.model_names)
            message = f"model: the model {name[:200]!r} does not exist; available: {served}"
            raise HttpError(404, "model_not_found", message, param="model")


def build_services(engine: Engine, config: ServerConfig, store: ResponseStore | None) -> Services:
    """Assemble the parts around an engine; without a `store` no responses are kept. Raises `KeyFileError`."""
    model = engine.describe()
    version = prompt_format(model.recipe_version)

    shared = recipe.Options(
        models=dict.fromkeys(config.model_names, version),
        history_key=config.history_key,
        show_tool_errors=config.show_tool_errors,
        range_cache_bytes=_RANGE_CACHE_BYTES,
    )

    @lru_cache(_ALIASES_KEPT)
    def options(alias: str) -> recipe.Options:
        return shared.with_models({alias: version}) if alias else shared

    metrics = Metrics(engine)
    metrics.watch_codec(shared)
    if store is not None:
        metrics.watch_store(store)
    return Services(
        engine=engine,
        model=model,
        config=config,
        tokenizer=recipe.Tokenizer.built_in(version),
        names=ModelNames(config.model_names, config.model_aliases),
        options=options,
        keyring=Keyring(config.api_keys, config.api_key_file),
        limits=ClientLimits(
            requests_per_minute=config.requests_per_minute, concurrent_requests=config.concurrent_requests
        ),
        metrics=metrics,
        live=LiveGenerations(),
        responses=Responses(store, on_loss=metrics.count_unstored),
        images=ImageReader(private_hosts=config.private_image_hosts),
        fingerprint=_fingerprint(model),
    )


def _fingerprint(model: ModelDescription) -> str:
    identity = f"{model.name}/{model.recipe_version}/{model.vocabulary_size}/{model.context_length}"
    return f"fp_{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
