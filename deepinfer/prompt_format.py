"""Names of the prompt formats, as the codec knows them. Imports nothing of it."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from deepinfer.errors import EngineError

PromptFormat: TypeAlias = Literal["v4", "v4.1"]

PROMPT_FORMATS: Final[dict[str, PromptFormat]] = {"v4": "v4", "v4.1": "v4.1"}


def prompt_format(name: str) -> PromptFormat:
    """Check the name of a prompt format. Raises `EngineError`."""
    found = PROMPT_FORMATS.get(name)
    if found is None:
        known = ", ".join(PROMPT_FORMATS)
        raise EngineError(f"the prompt format {name!r} is unknown; use one of: {known}", code="unknown_prompt_format")
    return found
