"""The OpenAPI document: every path with its parameters and the schema of its body.

The chat protocols' schemas are those that the codec generates; the others are made from the types that read them.
"""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any, Final

import msgspec

from deepinfer.link import PATH
from deepinfer.server.completions.request import CompletionRequest
from deepinfer.server.protocols import CHAT_PATHS, COMPLETION_PATHS, COUNT_PATHS, MODELS_PATHS, ProtocolName
from deepinfer.server.tokens import DetokenizeRequest, TokenizeRequest

Json = dict[str, Any]

_REFERENCES: Final = "#/components/schemas/{name}"
_SUMMARIES: Final[dict[ProtocolName, str]] = {
    "chat_completions": "OpenAI Chat Completions",
    "responses": "OpenAI Responses",
    "messages": "Anthropic Messages",
}
_PAGE: Final = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 100},
    "order": {"type": "string", "enum": ["asc", "desc"]},
    "after": {"type": "string"},
}
_REPLAY: Final = {
    "stream": {"type": "boolean"},
    "starting_after": {"type": "integer", "minimum": -1},
}


def describe_paths() -> Json:
    """Build the document."""
    paths: Json = {}
    _add_generation(paths)
    _add_responses(paths)
    for path in MODELS_PATHS:
        paths[path] = {"get": _operation("The served models")}
        paths[f"{path}/{{name}}"] = {"get": _operation("One model", path_parameter="name", errors=["404"])}
    for path, summary in (
        ("/", "What answers here"),
        ("/health", "Whether the engine works"),
        ("/ready", "Whether to send requests here"),
        ("/openapi.json", "This document"),
        ("/user/balance", "There is no balance"),
    ):
        paths[path] = {"get": _operation(summary, errors=["503"] if path in ("/health", "/ready") else [])}
    model: Json = {"model": {"type": "string"}}
    paths[PATH] = {"get": _operation("Upgrade to the native form, for gateways", query=model, errors=["404", "426"])}
    paths["/metrics"] = {"get": _operation("Metrics for Prometheus", media_type="text/plain")}
    cancel = _operation("End one's own running requests of this id", path_parameter="request_id", errors=["404"])
    paths["/v1/requests/{request_id}"] = {"delete": cancel}
    return {
        "openapi": "3.1.0",
        "info": {"title": "deepinfer", "version": _version()},
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
        "security": [{}, {"bearer": []}, {"header": []}],
    }


def _add_generation(paths: Json) -> None:
    for protocol, own in CHAT_PATHS.items():
        for path in own:
            paths[path] = {"post": _operation(_SUMMARIES[protocol], body=protocol, streams=True)}
    for protocol, own in COUNT_PATHS.items():
        for path in own:
            paths[path] = {"post": _operation(f"Tokens of a prompt of {_SUMMARIES[protocol]}", body=protocol)}
    for path in COMPLETION_PATHS:
        paths[path] = {"post": _operation("Text completion", body="CompletionRequest", streams=True)}
    paths["/tokenize"] = {"post": _operation("Tokens of a text or of a chat", body="TokenizeRequest")}
    paths["/detokenize"] = {"post": _operation("Text of tokens", body="DetokenizeRequest")}


def _add_responses(paths: Json) -> None:
    own: Json = {"path_parameter": "response_id", "errors": ["400", "404", "409", "503"]}
    for path in CHAT_PATHS["responses"]:
        one = f"{path}/{{response_id}}"
        paths[one] = {
            "get": _operation("A kept response", query=_REPLAY, streams=True, **own),
            "delete": _operation("Forget a response", **own),
        }
        paths[f"{one}/cancel"] = {"post": _operation("End a response in the background", **own)}
        paths[f"{one}/input_items"] = {"get": _operation("Items that a response answered", query=_PAGE, **own)}


def _operation(
    summary: str,
    *,
    body: str | None = None,
    path_parameter: str | None = None,
    query: Json | None = None,
    errors: list[str] | None = None,
    streams: bool = False,
    media_type: str = "application/json",
) -> Json:
    parameters = [{"name": name, "in": "query", "schema": schema} for name, schema in (query or {}).items()]
    if path_parameter is not None:
        parameters.append({"name": path_parameter, "in": "path", "required": True, "schema": {"type": "string"}})
    content: Json = {media_type: {"schema": {} if media_type != "application/json" else {"type": "object"}}}
    if streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    refusals = {*(errors or ()), "401", *(("400", "404", "408", "413", "415", "429", "503") if body else ())}
    operation: Json = {
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "Answer", "content": content},
            **dict.fromkeys(sorted(refusals), _REFUSAL),
        },
    }
    if body is not None:
        schema = {"$ref": _REFERENCES.format(name=body)}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


_REFUSAL: Final[Json] = {
    "description": "Refusal, in the envelope of the path's protocol",
    "content": {"application/json": {"schema": {"type": "object", "required": ["error"]}}},
}


def _schemas() -> Json:
    own = (CompletionRequest, TokenizeRequest, DetokenizeRequest)
    _, schemas = msgspec.json.schema_components(own, ref_template=_REFERENCES)
    for protocol in CHAT_PATHS:
        text = files("deepinfer.server").joinpath("schemas", f"{protocol}.request.json").read_text(encoding="utf-8")
        schemas[protocol] = {key: value for key, value in json.loads(text).items() if key != "$schema"}
    return schemas


def _version() -> str:
    try:
        return version("deepinfer")
    except PackageNotFoundError:
        return "0"
