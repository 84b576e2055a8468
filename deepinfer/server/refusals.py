"""What a request may ask of the codec and the engine cannot do: refused with the field's name, never passed over."""

from __future__ import annotations

from typing import Final

import deepseek_recipe as recipe
from deepinfer.server.config import ServerConfig
from deepinfer.server.errors import HttpError

# Constraints that an answer breaks unless the engine enforces them; a model that may call tools needs no force.
_BINDING: Final = frozenset({"tool_call_required", "json", "regex"})
_FORMAT_FIELDS: Final = {
    "chat_completions": "response_format",
    "responses": "text.format",
    "messages": "output_config.format",
}


def refuse_what_cannot_be_honoured(encoded: recipe.Encoded, config: ServerConfig) -> None:
    """Raise `HttpError` for a constraint, or for a sampling setting that this engine cannot honour."""
    constraint = encoded.constraint
    if constraint is not None and constraint.kind in _BINDING and not config.serves_constraints:
        _refuse_constraint(encoded, constraint)
    if not config.serves_penalties:
        _refuse_sampling(encoded.sampling)


def _refuse_constraint(encoded: recipe.Encoded, constraint: recipe.Constraint) -> None:
    if constraint.kind == "tool_call_required":
        field, what = "tool_choice", "force a call"
    else:
        field, what = _FORMAT_FIELDS[encoded.protocol or "chat_completions"], "keep answers to a schema"
    raise HttpError(400, "constraint_not_supported", f"{field}: this engine cannot {what}; leave it out", param=field)


def _refuse_sampling(sampling: recipe.Sampling) -> None:
    # What a setting is when it changes nothing; clients send these as a matter of course.
    settings: tuple[tuple[str, object, object], ...] = (
        ("frequency_penalty", sampling.frequency_penalty, 0.0),
        ("presence_penalty", sampling.presence_penalty, 0.0),
        ("logit_bias", {key: bias for key, bias in sampling.logit_bias.items() if bias}, {}),
        ("top_k", sampling.top_k, None),
    )
    for field, value, neutral in settings:
        if value != neutral:
            message = f"{field} is {value}, which this engine cannot honour; leave it out or set it to {neutral or 0}"
            raise HttpError(400, "sampling_not_supported", message, param=field)
