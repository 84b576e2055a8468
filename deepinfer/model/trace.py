"""Collects intermediate values of a forward for those who check, measure or train: owns them, changes none."""

from __future__ import annotations

from torch import Tensor


class Trace:
    """Values by name and layer: one tensor per forward and layer, in the order of the forwards."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, int], list[Tensor]] = {}

    def add(self, name: str, layer: int, value: Tensor) -> None:
        """Remember `value` under `name` for `layer`."""
        self.values.setdefault((name, layer), []).append(value)

    def layers(self, name: str) -> list[int]:
        """Layers that have a value of this name, ascending."""
        return sorted(layer for known, layer in self.values if known == name)

    def last(self, name: str, layer: int) -> Tensor:
        """Return the value of the last forward."""
        return self.values[name, layer][-1]
