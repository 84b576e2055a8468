"""The settings of `deepinfer serve`: one table, from which flags, environment variables and a file are read.

Of several sources the first that names a setting counts: flag, environment (`DEEPINFER_` and the name in capitals),
file (TOML, the name with underscores), default. Checks types only; `launch` checks what values mean.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from deepinfer.mistakes import CommandError, UsageError
from deepinfer.prompt_format import PROMPT_FORMATS

PREFIX: Final = "DEEPINFER_"
FILE_VARIABLE: Final = f"{PREFIX}CONFIG"
_WORDS: Final = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


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
        default_words="the last part of --model",
    )
    model_alias: tuple[str, ...] = _setting(
        (),
        Group.MODEL,
        "further names: 'claude-*' (any name that begins so) or 'gpt-5=NAME'; without =NAME the first served name",
        kind=Kind.TEXTS,
        metavar="ALIAS[=NAME]",
        default_words="none",
    )
    engine: str = _setting("native", Group.MODEL, "native or scripted", metavar="ENGINE")
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
        "memory that kept answers may take; the oldest go first",
        kind=Kind.WHOLE,
        metavar="BYTES",
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


def resolve(
    flags: Mapping[str, str | bool | Sequence[str]], environment: Mapping[str, str], *, file: str | None = None
) -> ServeSettings:
    """Read every setting from the first source that names it. Raises `UsageError` and `CommandError`.

    `flags` holds the flags that were given, as text; `file` is the value of `--config`.
    """
    path = file or environment.get(FILE_VARIABLE)
    tables = {} if path is None else _read_file(Path(path))
    values: dict[str, Any] = {}
    for setting in fields(ServeSettings):
        name, known = setting.name, about(setting)
        variable = PREFIX + name.upper()
        if name in flags:
            values[name] = _convert(flags[name], known, flag_of(name))
        elif environment.get(variable):
            values[name] = _convert(_from_environment(environment[variable], known), known, variable)
        elif name in tables:
            values[name] = _convert(tables[name], known, f"{path}: {name}")
    return ServeSettings(**values)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}; pass a file that can be read to --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: not valid TOML: {error}") from None
    known = {setting.name for setting in fields(ServeSettings)}
    for name in tables:
        if name not in known:
            raise CommandError(f"{path}: {name!r} is no setting; `deepinfer serve --help` lists them")
    return tables


def _from_environment(value: str, known: About) -> str | list[str]:
    if known.kind is not Kind.TEXTS:
        return value
    return [part.strip() for part in value.split(",") if part.strip()]


def _convert(value: Any, known: About, source: str) -> Any:
    converted = _CONVERSIONS[known.kind](value)
    if converted is None:
        raise UsageError(f"{source} is {value!r}; it must be {known.kind}")
    if known.choices and converted not in known.choices:
        raise UsageError(f"{source} is {value!r}; it must be one of {', '.join(known.choices)}")
    return converted


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: Any) -> tuple[str, ...] | None:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
        return None
    return tuple(values)


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _switch(value: Any) -> bool | None:
    return value if isinstance(value, bool) else _WORDS.get(value.lower()) if isinstance(value, str) else None


_CONVERSIONS: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    Kind.TEXT: _text,
    Kind.TEXTS: _texts,
    Kind.WHOLE: _whole,
    Kind.NUMBER: _number,
    Kind.SWITCH: _switch,
}


def environment_names() -> frozenset[str]:
    """Every environment variable that is read."""
    return frozenset({FILE_VARIABLE, *(PREFIX + setting.name.upper() for setting in fields(ServeSettings))})


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Variables that begin as ours and are none: most likely misspelled."""
    return sorted(name for name in environment if name.startswith(PREFIX) and name not in environment_names())
