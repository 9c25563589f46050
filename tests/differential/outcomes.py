"""What a query comes to, in one form for both systems, and how two of them differ."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.talking import Labels

RELATIVE = 1e-9
ABSOLUTE = 1e-9
"""Values are about 1 to 10,000; where they cancel out, what rounding leaves is smaller than this."""

_TOP = re.compile(r"(?:topk|bottomk)\b")


@dataclass(frozen=True)
class Asked:
    """A query and its steps; an instant query has one, and step 0."""

    text: str
    start_ms: int
    end_ms: int
    step_ms: int

    def times(self) -> range:
        return range(self.start_ms, self.end_ms + 1, self.step_ms or 1)

    def __str__(self) -> str:
        over = f" to {self.end_ms} step {self.step_ms}" if self.step_ms else ""
        return f"{self.text}  at {self.start_ms}{over}"


@dataclass(frozen=True)
class Outcome:
    """Either an error's type, or a type and its points: (labels, ms) to value.

    order   the values of an instant vector in the order in which they came
    """

    error: str = ""
    detail: str = ""
    kind: str = ""
    points: Mapping[tuple[Labels, int], float] = field(default_factory=dict)
    order: tuple[float, ...] = ()
    text: str = ""


def of_json(answer: Mapping[str, Any]) -> Outcome:
    """From the body of Prometheus' API."""
    if answer["status"] != "success":
        return Outcome(answer["errorType"], answer["error"])
    kind, result = answer["data"]["resultType"], answer["data"]["result"]
    if kind == "string":
        return Outcome(kind=kind, text=result[1])
    rows = [{"metric": {}, "value": result}] if kind == "scalar" else result
    points = {}
    for row in rows:
        labels = tuple(sorted(row["metric"].items()))
        for t_s, value in row.get("values") or [row["value"]]:
            key = labels, round(t_s * 1000)
            assert key not in points, f"twice: {key}"
            points[key] = float(value)
    return Outcome(kind=kind, points=points, order=tuple(points.values()) if kind == "vector" else ())


def differences(asked: Asked, ours: Outcome, theirs: Outcome) -> list[str]:
    """What tells two outcomes apart; empty if nothing does."""
    if ours.error or theirs.error:
        told = [f"{side.error or 'no error'} {side.detail}" for side in (ours, theirs)]
        return [] if ours.error == theirs.error else [f"here {told[0]}, there {told[1]}"]
    if (ours.kind, ours.text) != (theirs.kind, theirs.text):
        return [f"here a {ours.kind} {ours.text}, there a {theirs.kind} {theirs.text}"]
    if _TOP.match(asked.text):
        return _unlike_tops(ours.points, theirs.points)
    if asked.text.startswith("sort") and not _alike(ours.order, theirs.order):
        return [f"order: here {ours.order}, there {theirs.order}"]
    return _unlike(ours.points, theirs.points)


def _unlike(ours: Mapping[tuple[Labels, int], float], theirs: Mapping[tuple[Labels, int], float]) -> list[str]:
    found = [f"only here: {key} {ours[key]}" for key in sorted(ours.keys() - theirs.keys())]
    found += [f"only there: {key} {theirs[key]}" for key in sorted(theirs.keys() - ours.keys())]
    return found + [
        f"{key}: {ours[key]!r} here, {theirs[key]!r} there"
        for key in sorted(ours.keys() & theirs.keys())
        if not near(ours[key], theirs[key])
    ]


def _unlike_tops(ours: Mapping[tuple[Labels, int], float], theirs: Mapping[tuple[Labels, int], float]) -> list[str]:
    """Which of equal values are among the first is open: the values at each time must be the same."""
    here, there = _by_time(ours), _by_time(theirs)
    return [
        f"at {t}: here {here[t]}, there {there[t]}"
        for t in sorted(here.keys() | there.keys())
        if not _alike(here[t], there[t])
    ]


def _by_time(points: Mapping[tuple[Labels, int], float]) -> defaultdict[int, list[float]]:
    found: defaultdict[int, list[float]] = defaultdict(list)
    for (_, t), value in points.items():
        found[t].append(value)
    for values in found.values():
        values.sort(key=lambda v: (math.isnan(v), v))
    return found


def _alike(ours: Iterable[float], theirs: Iterable[float]) -> bool:
    ours, theirs = list(ours), list(theirs)
    return len(ours) == len(theirs) and all(map(near, ours, theirs))


def near(a: float, b: float) -> bool:
    """Whether two values are equal up to rounding; NaN equals NaN."""
    return math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE) or (math.isnan(a) and math.isnan(b))
