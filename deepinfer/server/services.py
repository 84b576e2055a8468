"""What every handler of one server shares: built once, handed in, never a global."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import deepseek_recipe as recipe
from deepinfer.core import Engine, ModelDescription
from deepinfer.prompt_format import prompt_format
from deepinfer.server.config import ServerConfig
from deepinfer.server.generation import LiveGenerations
from deepinfer.server.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of a running server."""

    engine: Engine
    model: ModelDescription
    config: ServerConfig
    options: recipe.Options
    metrics: Metrics
    live: LiveGenerations
    fingerprint: str


def build_services(engine: Engine, config: ServerConfig) -> Services:
    """Assemble the parts around an engine."""
    model = engine.describe()
    return Services(
        engine=engine,
        model=model,
        config=config,
        options=recipe.Options(models=dict.fromkeys(config.model_names, prompt_format(model.recipe_version))),
        metrics=Metrics(engine),
        live=LiveGenerations(),
        fingerprint=_fingerprint(model),
    )


def _fingerprint(model: ModelDescription) -> str:
    identity = f"{model.name}/{model.recipe_version}/{model.vocabulary_size}/{model.context_length}"
    return f"fp_{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
