"""A script's commands in order; every evaluation with its reruns.

An instant evaluation is repeated at other times with `@` on every selector, and as the middle step of a range
query: it must always come to the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from precompute.errors import QueryError, Unsupported
from precompute.evaluate.expr import Call, Expr, Selector, Subquery, walk
from precompute.evaluate.types import type_of
from precompute.evaluate.values import Scalar, Value, Vector
from query.promql.parse import parse
from query.promqltest.expected import Grid, difference, notes_difference
from query.promqltest.features import NATIVE_HISTOGRAMS
from query.promqltest.script import Clear, Eval, Load, commands
from query.promqltest.world import Answered, World

PASSED, FAILED, UNSUPPORTED = "passed", "failed", "unsupported"
_MINUTE_MS = 60_000
_OF_THE_QUERY = frozenset(("start", "end", "range", "step"))
_UNSAFE = _OF_THE_QUERY | {
    "days_in_month", "day_of_month", "day_of_week", "day_of_year", "hour", "minute", "month", "year",
    "predict_linear", "time", "timestamp",
}  # fmt: skip
"""Functions whose value depends on the evaluation's time even where all selectors have `@`."""


@dataclass(frozen=True)
class Outcome:
    """Of one evaluation: passed, failed or unsupported, and why."""

    line: int
    text: str
    status: str
    why: str = ""


def run(text: str) -> Iterator[Outcome]:
    """The outcome of each evaluation of a script. Raises BadScript."""
    world = World()
    for command in commands(text):
        if isinstance(command, Clear):
            world = World()
        elif isinstance(command, Load):
            world.load(command)
        else:
            yield _outcome(world, command)


def _outcome(world: World, command: Eval) -> Outcome:
    try:
        if command.expected.histograms:
            raise Unsupported(NATIVE_HISTOGRAMS)
        why = _check(world, command)
    except Unsupported as missing:
        return Outcome(command.line, command.text, UNSUPPORTED, missing.feature)
    return Outcome(command.line, command.text, FAILED if why else PASSED, why)


def _check(world: World, command: Eval) -> str:
    """Why an evaluation does not come to what is expected; empty if it does."""
    try:
        expr = parse(command.text)
    except Unsupported:
        raise
    except QueryError as error:
        return _failed(command, error)
    if not command.instant:
        return _once(world, command, expr, command.grid)
    for query, time_ms in _reruns(expr, command.grid.start_ms):
        if why := _instant(world, command, query, time_ms):
            return f"{query} at {time_ms} ms: {why}"
    return ""


def _reruns(expr: Expr, time_ms: int) -> Iterator[tuple[Expr, int]]:
    """The query, and the same fixed to its time by `@` and asked at others."""
    yield expr, time_ms
    if not any(isinstance(node, Call) and node.function in _UNSAFE for node in walk(expr)):
        fixed = _fixed(expr, time_ms)
        for other_ms in (-10 * time_ms, 0, time_ms // 5, time_ms, 10 * time_ms) if time_ms else (-1000, 0, 1000):
            yield fixed, other_ms


def _fixed(expr: Expr, time_ms: int) -> Expr:
    """`@` on every selector and subquery that has none; a subquery's inside stays as it is."""
    if isinstance(expr, (Selector, Subquery)):
        return replace(expr, at=time_ms) if expr.at is None else expr
    changed: dict[str, Any] = {}
    for part in fields(expr):
        value = getattr(expr, part.name)
        if isinstance(value, Expr):
            changed[part.name] = _fixed(value, time_ms)
        elif isinstance(value, tuple):
            changed[part.name] = tuple(_fixed(v, time_ms) if isinstance(v, Expr) else v for v in value)
    same: Expr = replace(expr, **changed)
    return same


def _instant(world: World, command: Eval, query: Expr, time_ms: int) -> str:
    """At one time, then as the middle step of three."""
    grid, expected = Grid(time_ms, time_ms, 0), command.expected
    moved = replace(command, expected=expected if expected.samples else replace(expected, grid=grid))
    if why := _once(world, moved, query, grid):
        return why
    unlike = any(isinstance(node, Call) and node.function in _OF_THE_QUERY for node in walk(query))
    if type_of(query) in ("matrix", "string") or expected.ordered or expected.fails or unlike:
        return ""
    around = world.ask(query, Grid(time_ms - _MINUTE_MS, time_ms + _MINUTE_MS, _MINUTE_MS))
    why = difference(moved.expected, _middle(around), [time_ms])
    return f"as a range query: {why}" if why else ""


def _middle(around: Answered) -> Value:
    value = around.value
    if isinstance(value, Scalar):
        return Scalar(value.values[1:2])
    assert isinstance(value, Vector), "a range query has no strings and no range vectors"
    return replace(value, values=value.values[:, 1:2], present=value.present[:, 1:2])


def _once(world: World, command: Eval, query: Expr, grid: Grid) -> str:
    try:
        answered = world.ask(query, grid)
    except Unsupported:
        raise
    except QueryError as error:
        return _failed(command, error)
    if command.expected.fails:
        return "no error"
    notes = answered.notes
    return notes_difference(command.expected, notes.warnings, notes.infos) or difference(
        command.expected, answered.value, answered.times
    )


def _failed(command: Eval, error: QueryError) -> str:
    wanted = command.expected.notes.get("fail", ())
    if not wanted:
        return f"error: {error}"
    text = str(error)
    return "" if all(note.matches(text) for note in wanted) else f"error: {text} instead of {wanted[0].text}"
