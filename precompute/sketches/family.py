"""Families of accumulators, and the names of their members.

A name is a family and, in brackets, parameters: `kll`, `kll(k=400)`, `countmin(width=2718, depth=5)`,
`le(bounds=0.1 1 10)`. Parameters that are left out have their defaults; the canonical name leaves out those.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from precompute.sketches.base import Accumulator

MAX_NAME = 400
_NAME = re.compile(r"\s*([a-z][a-z0-9_]*)\s*(?:\((.*)\))?\s*", re.DOTALL)

Value = int | float | tuple[float, ...]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a family. The default's type is its own: a whole number, a number, or rising numbers."""

    name: str
    default: Value
    low: float
    high: float
    """Inclusive limits, of each number."""
    meaning: str

    def read(self, text: str) -> Value:
        """The value that `text` stands for. Raises ValueError with the remedy."""
        try:
            value = self._typed(text)
        except ValueError:
            raise ValueError(f"{self.name} should be {self._kind()}, not {text.strip()!r}") from None
        numbers = value if isinstance(value, tuple) else (value,)
        if not all(self.low <= number <= self.high for number in numbers):
            raise ValueError(f"{self.name} should be between {self.low:g} and {self.high:g}, not {text.strip()}")
        if isinstance(value, tuple) and not (value and list(value) == sorted(set(value))):
            raise ValueError(f"{self.name} should rise, not {text.strip()!r}")
        return value

    def text(self, value: Value) -> str:
        """What `read` takes back."""
        return " ".join(map(repr, value)) if isinstance(value, tuple) else repr(value)

    def _typed(self, text: str) -> Value:
        if isinstance(self.default, tuple):
            return tuple(float(part) for part in text.split())
        return int(text) if isinstance(self.default, int) else float(text)

    def _kind(self) -> str:
        if isinstance(self.default, tuple):
            return "numbers with spaces between"
        return "a whole number" if isinstance(self.default, int) else "a number"


@dataclass(frozen=True)
class Family:
    """One kind of accumulator, for every choice of its parameters."""

    name: str
    meaning: str
    """One line for users."""
    make: Callable[..., Accumulator[Any]]
    """(name, **parameters) -> the accumulator of that name"""
    row_bytes: Callable[[Accumulator[Any], int], float]
    """(accumulator, n) -> bytes that a row of n different values takes at most, or about where values decide."""
    parameters: tuple[Parameter, ...] = ()
    fit: Callable[[float], Mapping[str, Value]] | None = None
    """Largest error -> parameters that keep to it, never looser than where a sketch is of use; None: it has none."""
    few: int = 0
    """With default parameters, up to this many values or keys a row is exact, whatever the bound."""

    def named(self, values: Mapping[str, Value]) -> str:
        """The canonical name of the member with these parameters."""
        given = [
            f"{p.name}={p.text(values[p.name])}" for p in self.parameters if values.get(p.name, p.default) != p.default
        ]
        return f"{self.name}({', '.join(given)})" if given else self.name

    def read(self, text: str) -> dict[str, Value]:
        """All parameters, from what stands in a name's brackets. Raises ValueError with the remedy."""
        known = {p.name: p for p in self.parameters}
        values: dict[str, Value] = {p.name: p.default for p in self.parameters}
        seen: set[str] = set()
        for part in filter(str.strip, text.split(",")):
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if key not in known or not equals:
                raise ValueError(f"{key!r} is no parameter of {self.name}; it has {', '.join(known) or 'none'}")
            if key in seen:
                raise ValueError(f"{key} is given twice")
            seen.add(key)
            values[key] = known[key].read(value)
        return values


def split_name(name: str, families: Mapping[str, Family]) -> tuple[Family, str]:
    """The family of a name, and what stands in the brackets. Raises ValueError, naming the nearest family."""
    match = _NAME.fullmatch(name) if len(name) <= MAX_NAME else None
    if match is None:
        raise ValueError(f"{name[:60]!r} is no accumulator; one is written family or family(parameter=value, …)")
    if match[1] not in families:
        near = difflib.get_close_matches(match[1], families, 1)
        raise ValueError(
            f"no accumulator {match[1]}{f'; did you mean {near[0]}?' if near else ''}; there are {', '.join(families)}"
        )
    return families[match[1]], match[2] or ""
