"""Names of server processes, by which another one on the same machine can tell at once that one of them has ended.

Elsewhere, and on systems without /proc, it cannot be told; there the time since its last sign of life has to do.
"""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4


def new_maker() -> str:
    """Name this process, and whoever asks in it, like nobody else."""
    return f"{_machine()} {os.getpid()} {_start_of(os.getpid())} {uuid4().hex}"


def has_ended(maker: str) -> bool:
    """Whether a process is known to have ended; False where that cannot be told."""
    machine, number, start, _ = maker.rsplit(" ", 3)
    return bool(machine) and machine == _machine() and _start_of(int(number)) != start


def _machine() -> str:
    """Whatever makes process numbers unique: a boot of a machine, and on it a namespace. Empty if it is not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start_of(number: int) -> str:
    """When a process started, in ticks since the boot; empty if it has ended."""
    try:
        # The name of the program, in brackets, may hold anything; the state is the first field behind it.
        state, *others = Path(f"/proc/{number}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if state in (b"Z", b"X") else others[18].decode()
