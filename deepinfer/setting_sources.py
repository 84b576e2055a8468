"""Where settings come from: flags, environment variables (`DEEPINFER_` and the name in capitals) and a TOML file.

Of several sources the first that names a setting counts, then its default. Checks types only; `launch` checks what
values mean.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from deepinfer.mistakes import CommandError, UsageError
from deepinfer.settings import About, Kind, ServeSettings, about, flag_of

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
