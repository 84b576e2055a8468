"""Subcommands of `recipe` that have a file of their own."""
