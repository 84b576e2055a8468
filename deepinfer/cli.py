"""The `deepinfer` command: flags, help, and mistakes as one line on standard error. Imports no engine and no server."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from deepinfer.errors import EngineError
from deepinfer.mistakes import CommandError, UsageError
from deepinfer.prompt_format import PROMPT_FORMATS

USAGE_STATUS: Final = 2
FAILURE_STATUS: Final = 1

_EXAMPLES: Final = """\
examples:
  deepinfer serve                                       the embedded model on http://127.0.0.1:8000
  deepinfer serve --port 0                              on a free port; the address is printed
  deepinfer serve --engine scripted --script rules.toml answers from a file, no model needed
  deepinfer serve --served-model-name deepseek-chat     under a name that clients already use
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the process's exit status."""
    parsed = build_parser().parse_args(arguments)
    try:
        _run_serve(parsed)
    except UsageError as error:
        return _complain(error, USAGE_STATUS)
    except (CommandError, EngineError) as error:
        return _complain(error, FAILURE_STATUS)
    except ModuleNotFoundError as error:
        message = f'the package {error.name} is not installed; run: pip install "deepinfer[serve]"'
        return _complain(CommandError(message), FAILURE_STATUS)
    except KeyboardInterrupt:
        return 0
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="deepinfer", description="Inference engine and server for DeepSeek models.")
    parser.add_argument("--version", action="version", version=f"deepinfer {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    serve = commands.add_parser(
        "serve",
        help="answer OpenAI Chat Completions, OpenAI Responses and Anthropic Messages over HTTP",
        description="Answer OpenAI Chat Completions, OpenAI Responses and Anthropic Messages over HTTP.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_address_flags(serve)
    _add_model_flags(serve)
    _add_limit_flags(serve)
    return parser


def _add_address_flags(serve: argparse.ArgumentParser) -> None:
    group = serve.add_argument_group("address and access")
    group.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    group.add_argument(
        "--port", type=int, default=8000, help="port to listen on; 0 takes a free one (default: %(default)s)"
    )
    group.add_argument(
        "--api-key",
        action="append",
        default=[],
        metavar="KEY",
        help="key that clients must send; may be given several times "
        "(default: DEEPINFER_API_KEY, else everyone may ask)",
    )


def _add_model_flags(serve: argparse.ArgumentParser) -> None:
    group = serve.add_argument_group("model and engine")
    group.add_argument(
        "--model", default="deepinfer-tiny", help="model to run (default: %(default)s, which is embedded)"
    )
    group.add_argument(
        "--served-model-name",
        action="append",
        default=[],
        metavar="NAME",
        help="name that requests may give in 'model'; may be given several times (default: the value of --model)",
    )
    group.add_argument("--engine", default="native", metavar="ENGINE", help="native or scripted (default: %(default)s)")
    group.add_argument("--script", metavar="FILE", help="rules of the scripted engine, in TOML")
    group.add_argument(
        "--prompt-format",
        choices=tuple(PROMPT_FORMATS),
        default="v4.1",
        help="prompt format (default: %(default)s)",
    )
    group.add_argument(
        "--context-length",
        type=int,
        metavar="TOKENS",
        help="most tokens of prompt and answer together (default: the engine's)",
    )


def _add_limit_flags(serve: argparse.ArgumentParser) -> None:
    group = serve.add_argument_group("limits and log")
    group.add_argument(
        "--max-body-bytes",
        type=int,
        default=32 * 1024 * 1024,
        metavar="BYTES",
        help="longest request body (default: %(default)s)",
    )
    group.add_argument(
        "--shutdown-seconds",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="how long running answers may go on after SIGTERM (default: %(default)s)",
    )
    group.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="least level logged (default: %(default)s)",
    )


def _run_serve(parsed: argparse.Namespace) -> None:
    from deepinfer.launch import ServeArguments, launch

    arguments = ServeArguments(**vars(parsed))
    launch(arguments, os.environ)


def _complain(error: Exception, status: int) -> int:
    print(f"deepinfer: error: {error}", file=sys.stderr)
    return status


def _version() -> str:
    try:
        return version("deepinfer")
    except PackageNotFoundError:
        return "from source"
