"""Durations and byte sizes as people write them, and as integers."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from precompute.errors import BadExpression
from precompute.matchers import compile_regex

_DURATION_UNITS_MS = {
    "y": 31_536_000_000, "w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1,
}  # fmt: skip
_DURATION = re.compile("".join(rf"(?:(?P<{unit}>[0-9]{{1,15}}){unit})?" for unit in _DURATION_UNITS_MS))
_SIZE = re.compile(r"(?P<number>[0-9]{1,18})\s*(?P<unit>[A-Za-z]{0,3})")
_SIZE_UNITS = {
    "": 1, "B": 1,
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip


def duration_ms(text: object) -> int:
    """Milliseconds of a duration in Prometheus' notation: `15s`, `1h30m`, `1d`; a bare number only if it is 0."""
    match = _DURATION.fullmatch(str(text).strip())
    if str(text).strip() == "0":
        return 0
    if isinstance(text, bool) or match is None or match.lastindex is None:
        raise ValueError("should be a duration with a unit, such as 15s, 1h30m or 1d")
    return sum(int(number or 0) * _DURATION_UNITS_MS[unit] for unit, number in match.groupdict().items())


def duration_text(ms: int) -> str:
    """The shortest exact notation, largest unit first; days are the largest that is written."""
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        number, ms = divmod(ms, _DURATION_UNITS_MS[unit])
        parts.append(f"{number}{unit}" if number else "")
    return "".join(parts) or "0s"


def size_bytes(text: object) -> int:
    """Bytes of a size: `4GiB`, `512MiB`, `100MB`, or a bare number of bytes."""
    match = _SIZE.fullmatch(str(text).strip())
    factor = _SIZE_UNITS.get(match["unit"]) if match else None
    if isinstance(text, bool) or match is None or factor is None:
        raise ValueError("should be a size, such as 512MiB, 4GiB or a number of bytes")
    return int(match["number"]) * factor


def size_text(size: int) -> str:
    """The notation in the largest binary unit that divides the size."""
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def _whole(value: object) -> object:
    """Keeps `true` from being read as 1."""
    if isinstance(value, bool):
        raise ValueError("should be a whole number")
    return value


DurationMs = Annotated[int, BeforeValidator(duration_ms), PlainSerializer(duration_text, when_used="json")]
"""A duration: text outside, integer milliseconds inside."""

ByteSize = Annotated[int, BeforeValidator(size_bytes), PlainSerializer(size_text, when_used="json")]
"""A size: text outside, integer bytes inside."""

def _pattern(text: str) -> str:
    try:
        compile_regex(text)
    except BadExpression as error:
        raise ValueError(f"should be a regular expression: {error}") from error
    return text


Pattern = Annotated[str, AfterValidator(_pattern)]
"""A regular expression, which has to match a whole text."""

Whole = Annotated[int, BeforeValidator(_whole)]
"""A whole number, never a boolean."""
