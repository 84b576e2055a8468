"""The codec's tokenizer as the engine needs it: bytes and control ids, no text."""

from __future__ import annotations

import deepseek_recipe as recipe
from deepinfer.core import Vocabulary
from deepinfer.prompt_format import prompt_format


def read_vocabulary(recipe_version: str) -> Vocabulary:
    """List a version's vocabulary; takes about 0.3 s. Raises `EngineError` for an unknown version.

    Every token that the tokenizer does not find in ordinary text counts as control token, the mark of tool calls
    (`｜DSML｜`) among them.
    """
    version = prompt_format(recipe_version)
    tokenizer = recipe.Tokenizer.built_in(version)
    token_bytes = [tokenizer.decode_bytes([token_id]) for token_id in range(tokenizer.vocabulary_size)]
    return Vocabulary(
        token_bytes=token_bytes,
        control_ids=frozenset(
            token_id
            for token_id, spelling in enumerate(token_bytes)
            if tokenizer.special_id(spelling.decode(errors="replace")) == token_id
        ),
        end_token_id=recipe.eos_token_id(version),
        encode=tokenizer.encode,
    )
