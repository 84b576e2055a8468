"""What can go wrong with a command before anything runs. Each message says what to do next."""

from __future__ import annotations


class UsageError(Exception):
    """The command line asks for something that does not exist or fit."""


class CommandError(Exception):
    """The command is right, but cannot do its work here."""
