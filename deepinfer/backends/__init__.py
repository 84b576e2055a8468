"""Implementations of the `Engine` protocol. Importing this package imports none of them."""
