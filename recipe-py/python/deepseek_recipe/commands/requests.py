"""What the commands that read requests share: their arguments, and how bodies and settings are read."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import deepseek_recipe as recipe

PROTOCOLS = ("chat_completions", "responses", "messages")
VERSIONS = ("v4", "v4.1")


def add_request_arguments(command: argparse.ArgumentParser) -> None:
    """The arguments of commands that read one request."""
    command.add_argument("file", nargs="?", default="-", help="request body as JSON; standard input if left out or -")
    add_settings(command)


def add_settings(command: argparse.ArgumentParser) -> None:
    """The arguments that say how requests are read and how the result is printed."""
    command.add_argument("--protocol", choices=PROTOCOLS, default="chat_completions")
    command.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME=VERSION",
        help=f"a model name and the version of its prompt ({' or '.join(VERSIONS)}); may be repeated",
    )
    command.add_argument("--json", action="store_true", help="print one JSON object")


def body_of(file: str) -> bytes:
    """The bytes of a file, or of standard input for `-`."""
    return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()


def options_of(parsed: argparse.Namespace) -> recipe.Options:
    """The settings that the command line names."""
    models = {}
    for given in parsed.model:
        name, separator, version = given.rpartition("=")
        if not separator or version not in VERSIONS:
            raise ValueError(f"--model takes NAME=VERSION with VERSION one of {', '.join(VERSIONS)}, not {given!r}")
        models[name] = version
    return recipe.Options(models=models or None)


def shown(text: str) -> str:
    """A text as a JSON string."""
    return json.dumps(text, ensure_ascii=False)
