"""The `recipe` command: what the codec makes of a request or of a model's output, from the shell."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import deepseek_recipe as recipe
from deepseek_recipe.commands import diff, explain
from deepseek_recipe.commands.requests import (
    PROTOCOLS,
    VERSIONS,
    add_request_arguments,
    body_of,
    options_of,
    shown,
)

STAGES = ("content", "reasoning_start", "reasoning_continuation", "content_continuation")
FINISHES = ("stop", "length", "content_filter", "none")
EVENTS: dict[type[recipe.Event], tuple[str, tuple[str, ...]]] = {
    recipe.Event.Reasoning: ("reasoning", ("text",)),
    recipe.Event.Text: ("text", ("text",)),
    recipe.Event.CallStart: ("call_start", ("index", "name")),
    recipe.Event.CallArguments: ("call_arguments", ("index", "fragment")),
    recipe.Event.CallParameterDropped: ("call_parameter_dropped", ("index", "name", "value")),
    recipe.Event.CallEnd: ("call_end", ("index", "complete")),
    recipe.Event.Finish: ("finish", ("reason", "stop_sequence")),
}


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; 0 is success, 1 a request that is refused, 2 a wrong call."""
    parsed = parser().parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except recipe.RequestError as error:
        where = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
        print(f"{parsed.command}: refused ({error.status_code} {error.code}){where}: {error}", file=sys.stderr)
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

    explain.add_arguments(commands.add_parser("explain", help="print which field each token of a request comes from"))
    diff.add_arguments(commands.add_parser("diff", help="print where two requests part, or what a sequence shares"))

    decode = commands.add_parser("decode", help="print what a model's output means")
    add_output_arguments(decode)
    decode.set_defaults(run=run_decode)
    return top


def add_output_arguments(command: argparse.ArgumentParser) -> None:
    """The arguments of `recipe decode`."""
    command.add_argument("file", nargs="?", default="-", help="output of a model; standard input if left out or -")
    command.add_argument("--ids", action="store_true", help="the output is token ids, separated by spaces or commas")
    command.add_argument("--version", choices=VERSIONS, default="v4.1", help="whose token ids they are (%(default)s)")
    command.add_argument("--chunk", type=int, metavar="N", help="push N ids or characters at a time (all at once)")
    command.add_argument("--stage", choices=STAGES, default="content", help="where the answer begins (%(default)s)")
    command.add_argument("--tools", metavar="NAME,…", help="the declared tools (any); an empty text: there are none")
    command.add_argument("--json-mode", action="store_true", help="the answer is to be a JSON value")
    command.add_argument("--stop", action="append", default=[], metavar="TEXT", help="a stop sequence; may be repeated")
    command.add_argument("--finish", choices=FINISHES, default="stop", help="what the backend says (%(default)s)")
    command.add_argument("--protocol", choices=PROTOCOLS, default="chat_completions", help="of --stream and --json")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--events", action="store_true", help="print every event, a JSON object a line")
    form.add_argument("--stream", action="store_true", help="print the stream that a client of the protocol gets")
    form.add_argument("--json", action="store_true", help="print the body of the protocol's full response")


def encoded(parsed: argparse.Namespace) -> recipe.Encoded:
    """The request that the command line names, encoded."""
    return recipe.encode(body_of(parsed.file), parsed.protocol, options=options_of(parsed))


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


def run_decode(parsed: argparse.Namespace) -> int:
    """`recipe decode`."""
    text = sys.stdin.read() if parsed.file == "-" else Path(parsed.file).read_text(encoding="utf-8")
    output = ids_of(text) if parsed.ids else text
    size = parsed.chunk or max(1, len(output))
    if size < 1:
        raise ValueError(f"--chunk takes a number above 0, not {size}")
    decoder = output_decoder(parsed)
    events: list[recipe.Event] = []
    sent = decoder.start()
    for place in range(0, len(output), size):
        part = output[place : place + size]
        sent += decoder.push_text(part) if isinstance(part, str) else decoder.push(part)
        events += decoder.events()
    if not decoder.is_finished():
        sent += decoder.finish(None if parsed.finish == "none" else parsed.finish)
        events += decoder.events()
    if parsed.stream:
        print(sent.decode(), end="")
    elif parsed.json:
        print(decoder.response().decode())
    else:
        print("\n".join(event_lines(events) if parsed.events else answer_lines(events)))
    return 0


def ids_of(text: str) -> list[int]:
    """The token ids in a text: numbers between spaces, commas or brackets."""
    words = [word for word in re.split(r"[\s,\[\]]+", text) if word]
    if wrong := [word for word in words if not word.isdecimal()]:
        raise ValueError(f"--ids takes token ids, not {wrong[0]!r}")
    return [int(word) for word in words]


def output_decoder(parsed: argparse.Namespace) -> recipe.Decoder:
    """The decoder that the command line describes."""
    tools = None if parsed.tools is None else [name for name in parsed.tools.split(",") if name]
    parsing = recipe.Parsing(
        initial_stage=parsed.stage,
        parse_tool_calls=True,
        parse_json_output=parsed.json_mode,
        stop_sequences=parsed.stop,
        declared_tools=tools,
    )
    return recipe.Decoder(
        parsed.protocol,
        parsing,
        id="decoded",
        model=f"deepseek-{parsed.version}",
        created=0,
        seed=b"decoded",
        thinking=parsed.stage.startswith("reasoning"),
        include_usage=False,
        tokenizer=parsed.version,
    )


def event_lines(events: list[recipe.Event]) -> list[str]:
    """Every event as a JSON object."""
    lines = []
    for event in events:
        name, members = EVENTS[type(event)]
        line = {"event": name} | {member: getattr(event, member) for member in members}
        lines.append(json.dumps(line, ensure_ascii=False))
    return lines


def answer_lines(events: list[recipe.Event]) -> list[str]:
    """The answer part by part, texts as JSON strings so that newlines show."""
    lines: list[list[str]] = []
    for event in events:
        match event:
            case recipe.Event.Reasoning(text) | recipe.Event.Text(text):
                kind = "reasoning" if isinstance(event, recipe.Event.Reasoning) else "text"
                if not lines or lines[-1][0] != kind:
                    lines.append([kind, ""])
                lines[-1][1] += text
            case recipe.Event.CallStart(_, name):
                lines.append(["call", shown(name), ""])
            case recipe.Event.CallArguments(_, fragment):
                lines[-1][2] += fragment
            case recipe.Event.CallParameterDropped(_, name, value):
                lines[-1].append(f"(dropped {json.dumps({name: value}, ensure_ascii=False)})")
            case recipe.Event.CallEnd(_, complete):
                lines[-1] += [] if complete else ["(incomplete)"]
            case recipe.Event.Finish(reason, stop_sequence):
                at = [] if stop_sequence is None else ["at", shown(stop_sequence)]
                lines.append(["finish", reason, *at])
    return [" ".join(line if line[0] in ("call", "finish") else [line[0], shown(line[1])]) for line in lines]


if __name__ == "__main__":
    sys.exit(main())
