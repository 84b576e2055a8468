"""Chat requests to DeepSeek token ids, and model output back into the protocols' streams."""

from deepseek_recipe._native import (
    Constraint,
    Encoded,
    Image,
    Options,
    Parsing,
    RequestError,
    Sampling,
    TokenIds,
    Tokenizer,
    __version__,
    encode,
    eos_token_id,
)

__all__ = [
    "Constraint",
    "Encoded",
    "Image",
    "Options",
    "Parsing",
    "RequestError",
    "Sampling",
    "TokenIds",
    "Tokenizer",
    "__version__",
    "encode",
    "eos_token_id",
]
