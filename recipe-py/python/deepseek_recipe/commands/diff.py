"""`recipe diff`: where do two requests part, and how much of a sequence would have been cached?"""

from __future__ import annotations

import argparse
import json
from typing import Any

import deepseek_recipe as recipe

from .explain import FORMAT
from .requests import add_settings, body_of, options_of
from .table import print_table


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The arguments of `recipe diff`."""
    command.add_argument("first", help="request body as JSON; if it is the only file, a sequence: one body a line")
    command.add_argument("second", nargs="?", help="the request body to compare it with; - is standard input")
    add_settings(command)
    command.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """`recipe diff`."""
    if parsed.second is None:
        return run_sequence(parsed)
    first, second = body_of(parsed.first), body_of(parsed.second)
    difference = recipe.diff(first, second, parsed.protocol, options=options_of(parsed))
    if parsed.json:
        print(json.dumps(members(difference), ensure_ascii=False))
        return 0
    print(difference)
    print(f"shared: {difference.shared} tokens")
    print(f"first:  {difference.first_tokens} tokens, {difference.first_share:.1%} of them shared")
    print(f"second: {difference.second_tokens} tokens, {difference.second_share:.1%} of them shared")
    return 0


def run_sequence(parsed: argparse.Namespace) -> int:
    """`recipe diff` of a recorded sequence of requests."""
    requests = [line for line in body_of(parsed.first).splitlines() if line.strip()]
    turns = recipe.diff_sequence(requests, parsed.protocol, options=options_of(parsed))
    tokens, shared = sum(turn.tokens for turn in turns), sum(turn.shared for turn in turns)
    share = shared / tokens if tokens else 0.0
    if parsed.json:
        lines = [
            {
                "tokens": turn.tokens,
                "shared": turn.shared,
                "share": turn.share,
                "earlier": turn.earlier,
                "difference": members(turn.difference),
            }
            for turn in turns
        ]
        print(json.dumps({"tokens": tokens, "shared": shared, "share": share, "turns": lines}, ensure_ascii=False))
        return 0
    rows = [
        (str(number), str(turn.tokens), str(turn.shared), f"{turn.share:.1%}", *parting(turn))
        for number, turn in enumerate(turns, start=1)
    ]
    rows.append(("all", str(tokens), str(shared), f"{share:.1%}", "", ""))
    print_table([("REQUEST", "TOKENS", "CACHED", "SHARE", "BY", "UNTIL"), *rows], right=(0, 1, 2, 3, 4))
    return 0


def parting(turn: recipe.Turn) -> tuple[str, str]:
    """The number of the request that held the most of a turn, and the field at which they part."""
    difference = turn.difference
    if turn.earlier is None or difference is None:
        return "", ""
    if difference.second is None:
        return str(turn.earlier + 1), "the end"
    return str(turn.earlier + 1), difference.path or FORMAT


def members(difference: recipe.Difference | None) -> dict[str, Any] | None:
    """A difference as a JSON object."""
    if difference is None:
        return None
    sides = {
        side: part and {"token_id": part.token_id, "path": part.path, "text": part.text}
        for side, part in (("first", difference.first), ("second", difference.second))
    }
    return {
        "shared": difference.shared,
        "first_tokens": difference.first_tokens,
        "first_share": difference.first_share,
        "second_tokens": difference.second_tokens,
        "second_share": difference.second_share,
        "path": difference.path,
        **sides,
        "sentence": str(difference),
    }
