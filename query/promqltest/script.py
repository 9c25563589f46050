"""The text of a script to its commands.

Lines are trimmed, and one that begins with `#` counts as blank; a blank line ends a command.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from query.promql.tokens import number, unquote
from query.promqltest.expected import Expectation, Grid
from query.promqltest.notation import BadScript, Series, labels, series

_LOAD = re.compile(r"load(_with_nhcb)?\s+(\S+)")
_INSTANT = re.compile(r"eval(?:_(fail|warn|ordered|info))?\s+instant\s+(?:at\s+(\S+)\s+)?(.+)")
_RANGE = re.compile(r"eval(?:_(fail|warn|info))?\s+range\s+from\s+(\S+)\s+to\s+(\S+)\s+step\s+(\S+)\s+(.+)")
_EXPECT = re.compile(r"expect\s+(ordered|fail|warn|no_warn|info|no_info)(?:\s+(regex|msg):(.+))?")
_VECTOR = re.compile(r"expect\s+range\s+vector\s+from\s+(\S+)\s+to\s+(\S+)\s+step\s+(\S+)")
_STRING = re.compile(r"expect\s+string\s+(.+)")
_OLD_MESSAGE = re.compile(r"expected_fail_(message|regexp)\s+(.+)")
_DURATION = re.compile(r"([0-9]+)(ms|[smhdwy])")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000, "y": 31_536_000_000}


@dataclass(frozen=True)
class Clear:
    line: int


@dataclass(frozen=True)
class Load:
    line: int
    step_ms: int
    series: tuple[Series, ...]
    started: tuple[Series, ...]
    """Series whose samples have start timestamps."""
    with_histograms: bool
    """Classic histograms are loaded as native ones too."""


@dataclass(frozen=True)
class Eval:
    """One evaluation: at one time, or from start to end."""

    line: int
    text: str
    grid: Grid
    instant: bool
    expected: Expectation = field(default_factory=Expectation)


Command = Clear | Load | Eval


def commands(text: str) -> Iterator[Command]:
    """Every command of a script, in order. Raises BadScript."""
    lines = [line.strip() for line in text.split("\n")]
    lines = ["" if line.startswith("#") else line for line in lines]
    at = 0
    while at < len(lines):
        block = _block(lines, at)
        if block:
            size, command = _command(block, at + 1)
            yield command
            at += size
        else:
            at += 1


def duration_ms(text: str) -> int:
    """A duration as Prometheus writes it: `1h30m`, `0`. Raises BadScript."""
    if text == "0":
        return 0
    if not re.fullmatch(f"(?:{_DURATION.pattern})+", text):
        raise BadScript(f"no duration: {text}")
    return sum(int(count) * _UNITS_MS[unit] for count, unit in _DURATION.findall(text))


def _block(lines: list[str], at: int) -> list[str]:
    end = at
    while end < len(lines) and lines[end]:
        end += 1
    return lines[at:end]


def _command(block: list[str], line: int) -> tuple[int, Command]:
    """The command at the head of a block, and how many lines it takes."""
    word = block[0].split()[0].lower()
    if word == "clear":
        return 1, Clear(line)
    if word.startswith("load"):
        return len(block), _load(block, line)
    if word.startswith("eval"):
        return _eval(block, line)
    raise BadScript(f"line {line}: no command: {block[0]}")


def _load(block: list[str], line: int) -> Load:
    head = _LOAD.fullmatch(block[0])
    if head is None:
        raise BadScript(f"line {line}: no load: {block[0]}")
    starts = [text for text in block[1:] if "@st" in text.split(maxsplit=1)[0]]
    # of two lines of one series the later counts
    lines = tuple({one.labels: one for one in map(series, (t for t in block[1:] if t not in starts))}.values())
    named = {labels(text.split("@st", 1)[0]) for text in starts}
    started = tuple(one for one in lines if one.labels in named)
    return Load(line, duration_ms(head[2]), lines, started, bool(head[1]))


def _eval(block: list[str], line: int) -> tuple[int, Eval]:
    instant, ranged = _INSTANT.fullmatch(block[0]), _RANGE.fullmatch(block[0])
    if instant is not None:
        at_ms = duration_ms(instant[2] or "0")
        made = Eval(line, instant[3], Grid(at_ms, at_ms, 0), True)
        old = instant[1]
    elif ranged is not None:
        made = Eval(line, ranged[5], Grid(*map(duration_ms, ranged.group(2, 3, 4))), False)
        old = ranged[1]
    else:
        raise BadScript(f"line {line}: no evaluation: {block[0]}")
    size, expected = _expected(block, old, made.grid)
    return size, Eval(made.line, made.text, made.grid, made.instant, expected)


def _expected(block: list[str], old: str | None, grid: Grid) -> tuple[int, Expectation]:
    """What the lines below an evaluation say, and how many lines it takes in all."""
    expected = Expectation(grid=grid).with_old_form(old)
    for place, text in enumerate(block[1:], 1):
        if (match := _OLD_MESSAGE.fullmatch(text)) and expected.fails:
            return place + 1, expected.noting("fail", "regex" if match[1] == "regexp" else "msg", match[2])
        if match := _VECTOR.fullmatch(text):
            expected = expected.samples_on(Grid(*map(duration_ms, match.groups())))
        elif match := _STRING.fullmatch(text):
            expected = expected.text(unquote(match[1]))
        elif match := _EXPECT.fullmatch(text):
            expected = expected.noting(match[1], match[2] or "", (match[3] or "").strip())
        elif _is_number(text):
            return place + 1, expected.scalar(number(text))
        else:
            expected = expected.with_series(series(text))
    return len(block), expected


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?(?:inf|nan|0x[0-9a-f]+|[0-9.]+(?:e[+-]?[0-9]+)?)", text, re.IGNORECASE) is not None
