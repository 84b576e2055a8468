"""The `recipe` command: what the codec makes of a request or of a model's output, from the shell."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import deepseek_recipe as recipe

PROTOCOLS = ("chat_completions", "responses", "messages")
VERSIONS = ("v4", "v4.1")


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; 0 is success, 1 a request that is refused, 2 a wrong call."""
    parsed = parser().parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except recipe.RequestError as error:
        print(f"{parsed.command}: refused ({error.status_code} {error.code}): {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        print(f"{parsed.command}: {error}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="recipe", description="Chat requests to DeepSeek token ids, and back.")
    top.add_argument("--version", action="version", version=f"deepseek-recipe {recipe.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    encode = commands.add_parser("encode", help="print the prompt and the token ids of a request")
    add_request_arguments(encode)
    encode.add_argument("--ids", action="store_true", help="print the token ids alone, separated by spaces")
    encode.set_defaults(run=run_encode)

    count = commands.add_parser("count", help="print how many tokens a request has")
    add_request_arguments(count)
    count.set_defaults(run=run_count)
    return top


def add_request_arguments(command: argparse.ArgumentParser) -> None:
    """The arguments of commands that read a request."""
    command.add_argument("file", nargs="?", default="-", help="request body as JSON; standard input if left out or -")
    command.add_argument("--protocol", choices=PROTOCOLS, default="chat_completions")
    command.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME=VERSION",
        help=f"a model name and the version of its prompt ({' or '.join(VERSIONS)}); may be repeated",
    )
    command.add_argument("--json", action="store_true", help="print one JSON object")


def encoded(parsed: argparse.Namespace) -> recipe.Encoded:
    """The request that the command line names, encoded."""
    body = sys.stdin.buffer.read() if parsed.file == "-" else Path(parsed.file).read_bytes()
    if not parsed.model:
        return recipe.encode(body, parsed.protocol)
    models = {}
    for given in parsed.model:
        name, separator, version = given.rpartition("=")
        if not separator or version not in VERSIONS:
            raise ValueError(f"--model takes NAME=VERSION with VERSION one of {', '.join(VERSIONS)}, not {given!r}")
        models[name] = version
    return recipe.encode(body, parsed.protocol, options=recipe.Options(models=models))


def run_encode(parsed: argparse.Namespace) -> int:
    """`recipe encode`."""
    result = encoded(parsed)
    ids = result.token_ids.tolist()
    if parsed.json:
        summary = {
            "model": result.model,
            "version": result.model_version,
            "prompt": result.prompt,
            "token_ids": ids,
            "special_ranges": result.special_ranges,
            "stream": result.stream,
            "warnings": result.warnings,
        }
        print(json.dumps(summary, ensure_ascii=False))
    elif parsed.ids:
        print(*ids)
    else:
        print(result.prompt)
        print(f"\n{len(ids)} tokens, {result.model} ({result.model_version})", file=sys.stderr)
        for warning in result.warnings:
            print(f"warning: {warning}", file=sys.stderr)
    return 0


def run_count(parsed: argparse.Namespace) -> int:
    """`recipe count`."""
    count = len(encoded(parsed).token_ids)
    print(json.dumps({"tokens": count}) if parsed.json else count)
    return 0


if __name__ == "__main__":
    sys.exit(main())
