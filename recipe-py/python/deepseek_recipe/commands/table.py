"""Tables for a terminal or a file."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

DIM = "\x1b[2m"
FIELD = "\x1b[36m"
PLAIN = "\x1b[0m"
# Where the output is no terminal, its width must not depend on one.
WIDTH = 120


def width() -> int:
    """Columns to fill."""
    return shutil.get_terminal_size((WIDTH, 1)).columns if sys.stdout.isatty() else WIDTH


def has_colours() -> bool:
    """Whether to print colours: on a terminal, unless the user has forbidden it."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def print_table(rows: Sequence[Sequence[str]], right: Sequence[int], colours: Sequence[str] = ()) -> None:
    """Prints rows, the first of them the head, in columns of their own width; those in `right` end flush.

    The last column is cut to the width of the output. `colours` holds one colour for each row after the head.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    room = max(20, width() - sum(widths) - 2 * len(widths))
    for place, row in enumerate(rows):
        cells = [
            cell.rjust(size) if column in right else cell.ljust(size)
            for column, (cell, size) in enumerate(zip(row, widths, strict=False))
        ]
        line = "  ".join([*cells, shortened(row[-1], room)]).rstrip()
        colour = (DIM if place == 0 else colours[place - 1]) if colours and has_colours() else ""
        print(f"{colour}{line}{PLAIN if colour else ''}")


def shortened(text: str, room: int) -> str:
    """A text, with its middle left out if it is longer than `room`."""
    if len(text) <= room:
        return text
    end = (room - 3) // 3
    return f"{text[: room - 3 - end]} … {text[len(text) - end :]}"
