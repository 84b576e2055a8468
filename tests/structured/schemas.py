"""Random JSON Schemas whose values are all short, and random regular expressions whose texts are.

Bounded on purpose: a model with random weights ends a text only where it must. Every schema keeps to what strict modes
of clients ask for: all properties required, none besides.
"""

from __future__ import annotations

import random
from typing import Any

_NAMES = (
    "city",
    "count",
    "unit",
    "tags",
    "id",
    "when",
    "is_open",
    "price",
    "note",
    "näme",
    "kind",
    "owner",
    "x-y",
    "log",
)
_WORDS = ("red", "green", "blue", "naïve", "左", 'with "quotes"', "a\\b", "", "tab\there", "😀", "</x>", "true", "12")
_PATTERNS = (
    "^[a-z]{2,5}$",
    "^[A-Z][0-9]{1,3}$",
    "^(yes|no|maybe)$",
    "^[0-9]{3}-[0-9]{4}$",
    "^#[0-9a-f]{6}$",
    "^.{1,4}$",
)
_REGEXES = (
    "[a-z]{{1,{n}}}@[a-z]{{1,{n}}}\\.(com|org)",
    "(\\+[0-9]{{1,3}} )?[0-9]{{3,{n}}}",
    "[A-Z]{{2}}-[0-9]{{1,{n}}}(-[a-z]{{1,2}})?",
    "(red|green|blue)(, (red|green|blue)){{0,{n}}}",
    "\\{{[0-9]{{1,{n}}}\\}}",
    "[^a-z\\n]{{1,{n}}}",
    "é?[äöü]{{1,{n}}}",
)


class SchemaMaker:
    """Draws schemas from a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._leaves = 0

    def object(self) -> dict[str, Any]:
        """An object with at most a dozen values in it."""
        self._leaves = 12
        return self._object(depth=0)

    def value(self) -> dict[str, Any]:
        """Any value with at most a dozen values in it."""
        self._leaves = 12
        return self._value(depth=0)

    def regex(self) -> str:
        """A regular expression."""
        return self._chance.choice(_REGEXES).format(n=self._chance.randint(3, 8))

    def _value(self, depth: int) -> dict[str, Any]:
        self._leaves -= 1
        makers = [self._string, self._integer, self._boolean, self._enum, self._constant, self._pattern, self._nullable]
        if depth < 3 and self._leaves > 2:
            return self._chance.choice([*makers, self._array, self._object, self._either, self._object])(depth)
        return self._chance.choice(makers)(depth)

    def _object(self, depth: int) -> dict[str, Any]:
        names = self._chance.sample(_NAMES, self._chance.randint(1, 4))
        properties = {name: self._value(depth + 1) for name in names}
        return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}

    def _array(self, depth: int) -> dict[str, Any]:
        most = self._chance.randint(1, 3)
        self._leaves -= most - 1
        items = self._value(depth + 1)
        return {"type": "array", "items": items, "minItems": self._chance.randint(0, most), "maxItems": most}

    def _either(self, _: int) -> dict[str, Any]:
        # Strict modes want a type for each choice, so none is a choice itself.
        makers = self._chance.sample([self._string, self._integer, self._boolean, self._enum, self._pattern], 2)
        return {"anyOf": [make(0) for make in makers]}

    def _nullable(self, depth: int) -> dict[str, Any]:
        return {"anyOf": [self._string(depth), {"type": "null"}]}

    def _string(self, _: int) -> dict[str, Any]:
        least = self._chance.randint(0, 3)
        return {"type": "string", "minLength": least, "maxLength": least + self._chance.randint(0, 9)}

    def _pattern(self, _: int) -> dict[str, Any]:
        return {"type": "string", "pattern": self._chance.choice(_PATTERNS)}

    def _integer(self, _: int) -> dict[str, Any]:
        least = self._chance.randint(-1000, 1000)
        return {"type": "integer", "minimum": least, "maximum": least + self._chance.choice((0, 7, 100, 10**6))}

    def _boolean(self, _: int) -> dict[str, Any]:
        return {"type": "boolean"}

    def _enum(self, _: int) -> dict[str, Any]:
        return {"type": "string", "enum": self._chance.sample(_WORDS, self._chance.randint(1, 5))}

    def _constant(self, _: int) -> dict[str, Any]:
        return {"type": "string", "const": self._chance.choice(_WORDS)}
