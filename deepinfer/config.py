"""Settings of the native engine, resolved once and frozen. Knows nothing of torch, HTTP or how settings are given."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from deepinfer.errors import EngineError

# Least values other than 1; a seed may be any number.
_LEAST: Final[dict[str, int | None]] = {"weight_seed": None, "kept_sequences": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Limits and identity of one native engine. Raises `EngineError` (`invalid_configuration`) for settings that clash.

    `context_length`: most tokens of one sequence, prompt and answer together.
    `block_size`, `block_count`: the key-value cache, in tokens per block and in blocks, shared by all sequences.
    `max_step_tokens`: most tokens the model processes in one step; longer prompts are split over steps.
    `max_running_sequences`: most sequences that hold cache memory at once; the others wait.
    `kept_sequences`: most ended sequences whose part of the cache is kept for prompts that begin alike; 0 keeps none.
    `torch_threads`: cores one tensor operation uses. One is the fastest for a tiny model beside a busy HTTP loop.
    `weight_seed`: seed of the embedded model's random weights.
    """

    name: str = "deepseek-embedded"
    recipe_version: str = "v4.1"
    context_length: int = 32768
    block_size: int = 16
    block_count: int = 8192
    max_step_tokens: int = 512
    max_running_sequences: int = 64
    kept_sequences: int = 64
    torch_threads: int = 1
    weight_seed: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = _LEAST.get(field.name, 1)
            if isinstance(value, int) and least is not None and value < least:
                raise _invalid(f"{field.name} is {value}; it must be at least {least}")
        if self.block_size * self.block_count < self.context_length:
            raise _invalid(
                f"block_size times block_count is {self.block_size * self.block_count} tokens, less than one sequence "
                f"of context_length {self.context_length}; raise block_count"
            )
        if self.max_running_sequences > self.max_step_tokens:
            raise _invalid(
                f"max_running_sequences is {self.max_running_sequences}, more than max_step_tokens "
                f"{self.max_step_tokens}; every running sequence needs one token of a step"
            )


def _invalid(message: str) -> EngineError:
    return EngineError(message, code="invalid_configuration")
