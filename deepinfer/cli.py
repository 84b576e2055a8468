"""The `deepinfer` command: flags, help, and mistakes as one line on standard error. Imports no engine and no server."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import Field, fields
from importlib.metadata import PackageNotFoundError, version
from math import inf
from pathlib import Path
from typing import Any, Final

from deepinfer.errors import EngineError
from deepinfer.mistakes import CommandError, UsageError
from deepinfer.setting_sources import FILE_VARIABLE, resolve
from deepinfer.settings import About, Group, Kind, ServeSettings, about, flag_of

USAGE_STATUS: Final = 2
FAILURE_STATUS: Final = 1

_EXAMPLES: Final = """\
Every option may also stand in the environment (--max-waiting as DEEPINFER_MAX_WAITING, lists with commas) or in the
file of --config (max_waiting = 50). Flags win over the environment, the environment over the file.

examples:
  deepinfer serve                                       the embedded model on http://127.0.0.1:8000
  deepinfer serve --port 0                              on a free port; the address is printed
  deepinfer serve --model PATH                          a checkpoint of the DeepSeek-V4.1 architecture
  deepinfer serve --engine scripted --script rules.toml answers from a file, no model needed
  deepinfer serve --engine remote --upstream URL        in front of vLLM, SGLang or another deepinfer
  deepinfer serve --served-model-name deepseek-chat     under a name that clients already use
  deepinfer serve --model-alias 'claude-*'              for Claude Code as it is
  deepinfer doctor                                      check the set-up and say what to do
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the process's exit status."""
    parsed = vars(build_parser().parse_args(arguments))
    command, file = parsed.pop("command"), parsed.pop("config", None)
    try:
        if command in ("inspect", "bench"):
            return _inspect(parsed["path"]) if command == "inspect" else _bench(parsed)
        settings = resolve(parsed, os.environ, file=file)
        return _run(command, settings)
    except UsageError as error:
        return _complain(error, USAGE_STATUS)
    except (CommandError, EngineError) as error:
        return _complain(error, FAILURE_STATUS)
    except ModuleNotFoundError as error:
        message = f'the package {error.name} is not installed; run: pip install "deepinfer[serve]"'
        return _complain(CommandError(message), FAILURE_STATUS)
    except KeyboardInterrupt:
        return 0


def build_parser() -> argparse.ArgumentParser:
    """Describe the command line. What is parsed holds the options that were given, as text."""
    parser = argparse.ArgumentParser(prog="deepinfer", description="Inference engine and server for DeepSeek models.")
    parser.add_argument("--version", action="version", version=f"deepinfer {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="command")
    for name, text in (
        ("serve", "answer OpenAI Chat Completions, OpenAI Responses and Anthropic Messages over HTTP"),
        ("doctor", "check the set-up for serve, with the options of serve, and say what to do"),
    ):
        command = commands.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=_EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,
        )
        _add_options(command)
    inspect = commands.add_parser("inspect", help="tell what a checkpoint holds: layers, roles, sizes, cache per token")
    inspect.add_argument("path", metavar="PATH", help="directory of the checkpoint")
    _add_bench(commands.add_parser("bench", help="measure speed"))
    return parser


def _add_bench(bench: argparse.ArgumentParser) -> None:
    parts = bench.add_subparsers(title="what to measure", metavar="PART", required=True, dest="part")
    model = parts.add_parser("model", help="the model alone: prefill and decode, by batch size and by block")
    model.add_argument(
        "--model", metavar="PATH", help="checkpoint to measure (default: random weights, 11 M parameters)"
    )
    model.add_argument("--threads", type=int, default=1, help="cores a tensor operation uses (default: %(default)s)")
    model.add_argument("--rounds", type=int, default=15, help="measurements per median (default: %(default)s)")
    gateway = parts.add_parser(
        "gateway", help="a gateway: what it adds to an upstream alone, and what its routing is worth to prefix caches"
    )
    gateway.add_argument("--target", metavar="URL", help="gateway that runs (default: one is started)")
    gateway.add_argument("--upstream", metavar="URL", help="upstream behind it, to be measured alone (with --target)")
    for name, kind, default, text in (
        ("streams", int, 64, "answers on their way at a time, on average, where upstreams are started"),
        ("rate", float, None, "requests a second (default: what --streams takes)"),
        ("seconds", float, 10.0, "length of a round, after its warm-up"),
        ("rounds", int, 3, "rounds with the upstream alone and through the gateway; 0 leaves them out"),
        ("conversations", int, 200, "conversations by which routing is measured; 0 leaves it out"),
        ("seed", int, 0, "seed of arrivals and conversations"),
    ):
        words = text if default is None else f"{text} (default: %(default)s)"
        gateway.add_argument(f"--{name}", type=kind, default=default, metavar="N", help=words)
    gateway.add_argument("--json", metavar="FILE", help="file for all figures")
    gateway.add_argument("--plot", metavar="FILE", help="PNG file for a picture; needs the extra deepinfer[bench]")


def _add_options(command: argparse.ArgumentParser) -> None:
    groups = {group: command.add_argument_group(group.value) for group in Group}
    for setting in fields(ServeSettings):
        known = about(setting)
        _add_option(groups[known.group], setting, known)
    file = command.add_argument_group("file")
    file.add_argument("--config", metavar="FILE", help=f"options in TOML (default: {FILE_VARIABLE}, else none)")


def _add_option(group: argparse._ArgumentGroup, setting: Field[Any], known: About) -> None:
    flag = flag_of(setting.name)
    text = known.help.replace("%", "%%")
    if known.choices:
        text += f"; {', '.join(known.choices[:-1])} or {known.choices[-1]}"
    if known.kind is Kind.TEXTS:
        text += "; may be given several times"
    default = known.default_words or ("none" if setting.default is None else setting.default)
    if known.kind is Kind.SWITCH:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, help=f"{text} (default: no)")
        return
    group.add_argument(
        flag,
        action="append" if known.kind is Kind.TEXTS else "store",
        metavar=known.metavar or setting.name.upper().replace("_", "-"),
        help=f"{text} (default: {default})",
    )


def _run(command: str, settings: ServeSettings) -> int:
    if command == "doctor":
        from deepinfer.doctor import examine

        return examine(settings, os.environ)
    from deepinfer.launch import launch

    launch(settings, os.environ)
    return 0


def _inspect(path: str) -> int:
    from deepinfer.inspection import describe

    print(describe(Path(path)))
    return 0


def _bench(parsed: dict[str, Any]) -> int:
    return _bench_gateway(parsed) if parsed.pop("part") == "gateway" else _bench_model(parsed)


def _bench_gateway(parsed: dict[str, Any]) -> int:
    from deepinfer.bench.gateway import Options, run_bench

    files = [None if (name := parsed.pop(kind)) is None else Path(name) for kind in ("json", "plot")]
    for name, least in (("streams", 1), ("seconds", 1), ("rounds", 0), ("conversations", 0)):
        if not least <= parsed[name] < inf:
            raise UsageError(f"--{name} is {parsed[name]}; it must be at least {least}")
    if parsed["rate"] is not None and not 0 < parsed["rate"] < inf:
        raise UsageError(f"--rate is {parsed['rate']}; it must be above 0")
    if (parsed["target"] is None) != (parsed["upstream"] is None):
        raise UsageError("--target and --upstream belong together; give both, or neither to start servers")
    run_bench(Options(**parsed), json_file=files[0], plot_file=files[1])
    return 0


def _bench_model(parsed: dict[str, Any]) -> int:
    from deepinfer.bench.model import run_bench

    for name in ("threads", "rounds"):
        if parsed[name] < 1:
            raise UsageError(f"--{name} is {parsed[name]}; it must be at least 1")
    checkpoint = None if parsed["model"] is None else Path(parsed["model"])
    run_bench(checkpoint, threads=parsed["threads"], rounds=parsed["rounds"])
    return 0


def _complain(error: Exception, status: int) -> int:
    print(f"deepinfer: error: {error}", file=sys.stderr)
    return status


def _version() -> str:
    try:
        return version("deepinfer")
    except PackageNotFoundError:
        return "from source"
