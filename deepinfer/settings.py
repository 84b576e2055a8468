"""The settings of `deepinfer serve`: one table, from which flags, help, and names in environment and file come."""

from __future__ import annotations

from dataclasses import Field, dataclass, field
from enum import StrEnum
from typing import Any

from deepinfer.prompt_format import PROMPT_FORMATS


class Kind(StrEnum):
    """What a setting's value is."""

    TEXT = "a text"
    WHOLE = "a whole number"
    NUMBER = "a number"
    SWITCH = "true or false"
    TEXTS = "a list of texts"


class Group(StrEnum):
    """Headings of the help text, in its order."""

    ADDRESS = "address"
    ACCESS = "access"
    MODEL = "model and engine"
    GATEWAY = "gateway (engine remote)"
    ANSWERS = "answers"
    LIMITS = "limits"
    LOG = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What is known of a setting besides its default."""

    kind: Kind
    group: Group
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    default_words: str | None = None


def _setting(
    default: Any,
    group: Group,
    help: str,
    *,
    kind: Kind = Kind.TEXT,
    metavar: str | None = None,
    choices: tuple[str, ...] = (),
    default_words: str | None = None,
    secret: bool = False,
) -> Any:
    about = About(kind=kind, group=group, help=help, metavar=metavar, choices=choices, default_words=default_words)
    return field(default=default, metadata={"about": about}, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """The settings as given, defaults filled in."""

    host: str = _setting("127.0.0.1", Group.ADDRESS, "address to listen on")
    port: int = _setting(8000, Group.ADDRESS, "port to listen on; 0 takes a free one", kind=Kind.WHOLE)
    cors_origin: tuple[str, ...] = _setting(
        (),
        Group.ADDRESS,
        "origin whose pages may call the server from a browser; * for all",
        kind=Kind.TEXTS,
        metavar="ORIGIN",
        default_words="none",
    )

    api_key: tuple[str, ...] = _setting(
        (),
        Group.ACCESS,
        "key that clients must send",
        kind=Kind.TEXTS,
        metavar="KEY",
        default_words="everyone may ask",
        secret=True,
    )
    api_key_file: str | None = _setting(
        None, Group.ACCESS, "file with one key a line; read again when it changes", metavar="FILE"
    )
    requests_per_minute: int = _setting(
        0,
        Group.ACCESS,
        "most requests to generate, count or tokenise that one key may begin in a minute; 0 is no limit",
        kind=Kind.WHOLE,
        metavar="N",
    )
    concurrent_requests: int = _setting(
        0,
        Group.ACCESS,
        "most such requests of one key at a time; 0 is no limit",
        kind=Kind.WHOLE,
        metavar="N",
    )

    model: str = _setting("deepinfer-tiny", Group.MODEL, "directory of a checkpoint; the default is embedded")
    served_model_name: tuple[str, ...] = _setting(
        (),
        Group.MODEL,
        "name that requests may give in 'model'",
        kind=Kind.TEXTS,
        metavar="NAME",
        default_words="the value of --model, of a directory its last part",
    )
    model_alias: tuple[str, ...] = _setting(
        (),
        Group.MODEL,
        "further names: 'claude-*' (any name that begins so) or 'gpt-5=NAME'; without =NAME the first served name",
        kind=Kind.TEXTS,
        metavar="ALIAS[=NAME]",
        default_words="none",
    )
    engine: str = _setting(
        "native", Group.MODEL, "native, scripted, or remote, which asks other servers", metavar="ENGINE"
    )
    script: str | None = _setting(None, Group.MODEL, "rules of the scripted engine, in TOML", metavar="FILE")
    prompt_format: str = _setting("v4.1", Group.MODEL, "prompt format", choices=tuple(PROMPT_FORMATS))
    context_length: int | None = _setting(
        None,
        Group.MODEL,
        "most tokens of prompt and answer together",
        kind=Kind.WHOLE,
        metavar="TOKENS",
        default_words="the engine's",
    )

    upstream: tuple[str, ...] = _setting(
        (),
        Group.GATEWAY,
        "address of a server that generates",
        kind=Kind.TEXTS,
        metavar="URL",
        default_words="none",
    )
    upstream_model: str | None = _setting(
        None,
        Group.GATEWAY,
        "name that upstreams are asked for",
        metavar="NAME",
        default_words="the first that each lists",
    )
    upstream_api_key: str | None = _setting(
        None,
        Group.GATEWAY,
        "key for the upstreams, or a file that holds it",
        metavar="KEY|FILE",
        default_words="none",
        secret=True,
    )
    upstream_ca: str | None = _setting(
        None,
        Group.GATEWAY,
        "certificates that https upstreams are verified by, in PEM",
        metavar="FILE",
        default_words="those of the system",
    )
    upstream_connect_seconds: float = _setting(
        5.0, Group.GATEWAY, "longest wait for a connection", kind=Kind.NUMBER, metavar="SECONDS"
    )
    upstream_first_token_seconds: float = _setting(
        600.0,
        Group.GATEWAY,
        "longest wait for the first token, the upstream's queue included",
        kind=Kind.NUMBER,
        metavar="SECONDS",
    )
    upstream_token_seconds: float = _setting(
        60.0, Group.GATEWAY, "longest wait between tokens", kind=Kind.NUMBER, metavar="SECONDS"
    )
    upstream_load_cap: float = _setting(
        2.0,
        Group.GATEWAY,
        "how many times the average load an upstream may have before its conversations go elsewhere",
        kind=Kind.NUMBER,
        metavar="FACTOR",
    )

    history_key: str | None = _setting(
        None,
        Group.ANSWERS,
        "secret for token-faithful history: at least 16 bytes in hex, or a file that holds them so",
        metavar="HEX|FILE",
        default_words="off",
        secret=True,
    )
    show_tool_errors: bool = _setting(
        False,
        Group.ANSWERS,
        "show the model which tool results of Messages are errors (is_error); its own service does not",
        kind=Kind.SWITCH,
    )
    stored_responses: int = _setting(
        1000,
        Group.ANSWERS,
        "how many answers of /v1/responses are kept for previous_response_id and retrieval; 0 keeps none",
        kind=Kind.WHOLE,
        metavar="N",
    )
    stored_response_bytes: int = _setting(
        256 * 1024 * 1024,
        Group.ANSWERS,
        "bytes that kept answers may take together; the oldest go first",
        kind=Kind.WHOLE,
        metavar="BYTES",
    )
    stored_response_days: float = _setting(
        30.0,
        Group.ANSWERS,
        "how long an answer is kept; 0 is no limit",
        kind=Kind.NUMBER,
        metavar="DAYS",
    )
    response_store: str | None = _setting(
        None,
        Group.ANSWERS,
        "where answers are kept: a SQLite file, postgresql://USER:PASSWORD@HOST/DATABASE, or memory",
        metavar="PATH|URL|memory",
        default_words="a file in the user's directory of state",
        secret=True,
    )

    max_body_bytes: int = _setting(
        32 * 1024 * 1024, Group.LIMITS, "longest request body", kind=Kind.WHOLE, metavar="BYTES"
    )
    private_image_hosts: bool = _setting(
        False, Group.LIMITS, "let requests name images on addresses that are not public", kind=Kind.SWITCH
    )
    max_waiting: int = _setting(
        1000,
        Group.LIMITS,
        "requests that may wait in the engine's queue; more are told that the server is overloaded",
        kind=Kind.WHOLE,
        metavar="N",
    )
    keep_alive_seconds: float = _setting(
        10.0,
        Group.LIMITS,
        "silence after which a stream carries a sign of life",
        kind=Kind.NUMBER,
        metavar="SECONDS",
    )
    shutdown_seconds: float = _setting(
        30.0,
        Group.LIMITS,
        "how long running answers may go on after SIGTERM",
        kind=Kind.NUMBER,
        metavar="SECONDS",
    )

    log_level: str = _setting("info", Group.LOG, "least level logged", choices=("debug", "info", "warning", "error"))
    log_prompts: bool = _setting(False, Group.LOG, "log the text of prompts and answers", kind=Kind.SWITCH)


def about(setting: Field[Any]) -> About:
    """What is known of a setting."""
    found = setting.metadata["about"]
    assert isinstance(found, About)
    return found


def flag_of(name: str) -> str:
    """The flag of a setting."""
    return "--" + name.replace("_", "-")
