"""Series lines of a script: `metric{labels} values`.

Values, separated by blanks: a number, `_` (no sample), `_xN` (N of them), `stale`, `axN` (a, N + 1 times),
`a+bxN` and `a-bxN` (N + 1 values, each from the one before it); `{{…}}` is a native histogram.
"""

import re
from dataclasses import dataclass

from precompute.labels import METRIC_NAME, Labels
from precompute.samples import STALE
from query.promql.tokens import Token, number, tokens_of, unquote

_HISTOGRAM = re.compile(r"\{\{.*?\}\}(?:[+-]\{\{.*?\}\})?(?:x[0-9]+)?")
_LABELS = re.compile(
    r"""(?:[A-Za-z_:][A-Za-z0-9_:]*)?\s*(?:\{(?!\{)(?:[^{}"'`]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)*\})?"""
)
_NUMBER = r"[+-]?(?:inf|nan|[0-9.]+(?:e[+-]?[0-9]+)?)"
_ITEM = re.compile(rf"(?P<start>stale|_|{_NUMBER})(?P<step>{_NUMBER})?(?:x(?P<times>[0-9]+))?", re.IGNORECASE)
_LONGEST = 1 << 20


class BadScript(ValueError):
    """A line that is not in the format; the text says which and why."""


@dataclass(frozen=True)
class Series:
    """One line: None is no sample. Native histograms are not read; `histograms` tells that there were some."""

    labels: Labels
    values: tuple[float | None, ...]
    histograms: bool = False


def series(line: str) -> Series:
    """Raises BadScript."""
    body, rest = _split(line)
    bare, found = _HISTOGRAM.subn(" _ ", rest)
    values: list[float | None] = []
    for item in bare.split():
        values.extend(_sequence(item, line))
    return Series(labels(body), tuple(values), found > 0)


def labels(text: str) -> Labels:
    """A label set as PromQL writes it: `name{a="b"}`, `{"quoted name", a="b"}`, `{}`. Raises BadScript."""
    tokens = tokens_of(text)
    named: dict[str, str] = {}
    if tokens and tokens[0].kind == "word":
        named[METRIC_NAME] = tokens.pop(0).text
    if tokens and (tokens[0].text, tokens[-1].text) != ("{", "}"):
        raise BadScript(f"no label set: {text}")
    at = 1
    while at < len(tokens) - 1:
        at = _label(tokens, at, named, text)
    return tuple(sorted((name, value) for name, value in named.items() if value))


def _label(tokens: list[Token], at: int, named: dict[str, str], text: str) -> int:
    """Read one label from `at` on, and where the next one begins."""
    name = unquote(tokens[at].text) if tokens[at].kind == "string" else tokens[at].text
    if tokens[at + 1].text == "=" and tokens[at + 2].kind == "string":
        named[name] = unquote(tokens[at + 2].text)
        at += 3
    elif tokens[at].kind == "string":
        named[METRIC_NAME] = name
        at += 1
    else:
        raise BadScript(f"no label set: {text}")
    return at + 1 if tokens[at].text == "," else at


def _split(line: str) -> tuple[str, str]:
    """The label set and the values."""
    match = _LABELS.match(line)
    if match is None:
        raise BadScript(f"no series: {line}")
    return match[0], line[match.end() :]


def _sequence(item: str, line: str) -> list[float | None]:
    match = _ITEM.fullmatch(item)
    if match is None or int(match["times"] or 0) > _LONGEST:
        raise BadScript(f"no value: {item} in {line}")
    times = match["times"]
    if match["start"] == "_":
        return [None] * int(times or 1)
    value = STALE if match["start"].lower() == "stale" else number(match["start"])
    if times is None:
        return [value]
    step = number(match["step"]) if match["step"] else None
    out: list[float | None] = [value]
    for _ in range(int(times)):
        value = value if step is None else value + step
        out.append(value)
    return out
