"""Where Prometheus 2.42 gives other answers than Prometheus 3, whose rules are ours.

Kept out by how series and queries are drawn and compared:

    ranges and lookback of 2.42 include their left edge     no sample and no inner step lies on an edge (world.py)
    `holt_winters` is `double_exponential_smoothing`        the query is translated (grammar.RENAMED)
    which of equal values topk and bottomk take is open     their values are compared, not whose they are (outcomes.py)
    the texts of errors                                     their types are compared

Recognised where they show, by `KNOWN`.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from precompute.evaluate.expr import (
    COMPARISONS,
    Aggregate,
    Binary,
    Call,
    Expr,
    Negate,
    Number,
    Range,
    Selector,
    Subquery,
    selectors,
    walk,
)
from precompute.matchers import Condition
from tests.differential.outcomes import Asked, Outcome, differences, near
from tests.differential.world import Samples, World

NEW_SINCE = frozenset((
    "end", "first_over_time", "histogram_avg", "histogram_count", "histogram_fraction", "histogram_quantiles",
    "histogram_stddev", "histogram_stdvar", "histogram_sum", "info", "limit_ratio", "limitk", "mad_over_time",
    "max_of", "min_of", "range", "sort_by_label", "sort_by_label_desc", "start", "step", "ts_of_first_over_time",
    "ts_of_last_over_time", "ts_of_max_over_time", "ts_of_min_over_time",
))  # fmt: skip
"""Functions and operators that 2.42 does not have, or has for native histograms alone."""


@dataclass(frozen=True)
class Case:
    """A query that was answered differently."""

    asked: Asked
    expr: Expr
    world: World
    ours: Outcome
    theirs: Outcome

    def calls(self, *names: str) -> list[Call]:
        return [node for node in walk(self.expr) if isinstance(node, Call) and node.function in names]


def reason_for(case: Case) -> str:
    """Why 2.42 may differ here; empty if nothing known explains it."""
    return next((reason for reason, explains in KNOWN.items() if explains(case)), "")


def _counter_start(case: Case) -> bool:
    """Whether some window of `rate` or `increase` falls under 3's new rule."""
    return any(
        _otherwise(window, end_ms - call.args[0].range_ms)
        for call in case.calls("rate", "increase")
        if isinstance(call.args[0], Range)
        for samples in _selected(call.args[0].selector, case.world)
        for end_ms in _ends(call.args[0].selector, case, samples)
        if len(window := _window(samples, end_ms - call.args[0].range_ms, end_ms)) > 1
    )


def _filtered_matches(case: Case) -> bool:
    filters = (n for n in walk(case.expr) if isinstance(n, Binary) and n.op in COMPARISONS and not n.bool_)
    return not case.theirs.error and case.ours.detail.startswith("multiple matches for labels") and any(filters)


def _merged_rows(case: Case) -> bool:
    merging = (node for node in walk(case.expr) if isinstance(node, (Negate, Range, Subquery)))
    return not case.ours.error and "same labelset" in case.theirs.detail and any(merging)


def _odd_deviation(case: Case) -> bool:
    if not isinstance(case.expr, Aggregate) or case.expr.op not in ("stddev", "stdvar"):
        return False
    ours, theirs = case.ours.points, case.theirs.points
    return ours.keys() == theirs.keys() and all(
        near(ours[key], theirs[key]) or (math.isnan(ours[key]) and theirs[key] == 0) for key in ours
    )


def _prediction_at(case: Case) -> bool:
    over_steps = case.asked.step_ms > 0 or any(isinstance(node, Subquery) for node in walk(case.expr))
    return over_steps and any(_fixed(call.args[0]) for call in case.calls("predict_linear"))


def _parameter_at(case: Case) -> bool:
    return any(
        isinstance(node, Aggregate) and node.parameter is not None and not isinstance(node.parameter, Number)
        and any(_fixed(inner) for inner in walk(node.expr))
        for node in walk(case.expr)
    )  # fmt: skip


def _fixed(ranged: Expr) -> bool:
    node = ranged.selector if isinstance(ranged, Range) else ranged
    return isinstance(node, (Selector, Subquery)) and node.at is not None


def _infinite_fit(case: Case) -> bool:
    fitted = (selector for call in case.calls("deriv", "predict_linear") for selector in selectors(call))
    return any(math.isinf(v) for s in fitted for samples in _selected(s, case.world) for _, v in samples)


def _timestamp_shift(case: Case) -> bool:
    of = [call.args[0] for call in case.calls("timestamp")]
    return any(isinstance(s, Selector) and s.at is not None and s.offset_ms != 0 for s in of)


def _named_angles(case: Case) -> bool:
    angles = [node for node in walk(case.expr) if isinstance(node, Binary) and node.op == "atan2"]
    return bool(angles) and not differences(case.asked, _nameless(case.ours), _nameless(case.theirs))


def _signed_zero(case: Case) -> bool:
    sums = [node for node in walk(case.expr) if isinstance(node, Aggregate) and node.op in ("sum", "avg")]
    return bool(sums) and _shows_negative_zero(case.theirs)


def _zero_extreme(case: Case) -> bool:
    extremes = [node for node in walk(case.expr) if isinstance(node, Aggregate) and node.op in ("min", "max")]
    shown = _shows_negative_zero(case.ours) or _shows_negative_zero(case.theirs)
    return bool(extremes) and shown and not differences(case.asked, _unsigned(case.ours), _unsigned(case.theirs))


def _rounded_mean(case: Case) -> bool:
    """Whether all that only one side shows is, up to rounding, the number that means are compared with."""
    means = [*case.calls("avg_over_time"), *(n for n in walk(case.expr) if isinstance(n, Aggregate) and n.op == "avg")]
    limits = [n.right.value for n in walk(case.expr)
              if isinstance(n, Binary) and n.op in COMPARISONS and isinstance(n.right, Number)]  # fmt: skip
    ours, theirs = case.ours.points, case.theirs.points
    only = [{**ours, **theirs}[key] for key in ours.keys() ^ theirs.keys()]
    alike = all(near(ours[key], theirs[key]) for key in ours.keys() & theirs.keys())
    return bool(means and only) and alike and all(any(near(v, limit) for limit in limits) for v in only)


def _shows_negative_zero(outcome: Outcome) -> bool:
    return any(value == "-0" for labels, _ in outcome.points for _, value in labels)


def _unsigned(outcome: Outcome) -> Outcome:
    """With the counts of -0 added to those of 0."""
    points: dict[Any, float] = {}
    for (labels, t), value in outcome.points.items():
        key = tuple((name, "0" if text == "-0" else text) for name, text in labels), t
        points[key] = points.get(key, 0.0) + value
    return replace(outcome, points=points)


def _nameless(outcome: Outcome) -> Outcome:
    points = {
        (tuple(label for label in labels if label[0] != "__name__"), t): value
        for (labels, t), value in outcome.points.items()
    }
    return replace(outcome, points=points)


KNOWN: dict[str, Callable[[Case], bool]] = {
    "a counter whose first sample in the window lies far behind the window's start, less than 1.1 intervals after it "
    "was zero: 2.42 extrapolates back to the zero, 3 by half an interval at most": _counter_start,
    "rows that a filtering comparison leaves out count as matches in 3 alone": _filtered_matches,
    "unary minus, in 3, joins rows that without their names are equal but never there at the same time, as most "
    "functions do; functions of ranges here where an aggregation's steps are taken in stretches": _merged_rows,
    "a changing parameter of an aggregation of what @ fixes: Prometheus, 3 included, keeps its first": _parameter_at,
    "the deviation of a lone NaN or infinity is NaN in 3, 0 in 2.42": _odd_deviation,
    "predict_linear of a range fixed by @: over several steps 2.42 contradicts its own instant answers": _prediction_at,
    "a line through infinities: 3's compensated sums stay infinite, 2.42's become NaN": _infinite_fit,
    "atan2 drops the metric's name since 3": _named_angles,
    "a sum of nothing but -0 is 0 since 3, which shows in the labels of count_values": _signed_zero,
    "-0 is smaller than 0 here; Prometheus, 3 included, takes the first, which count_values shows": _zero_extreme,
    "2.42 keeps a running mean, whose rounding a comparison with the exact mean shows": _rounded_mean,
    "timestamp of a selector with @ and offset: Prometheus, 3 included, forgets the offset": _timestamp_shift,
}
"""The reason, and what recognises a case of it."""


def _selected(selector: Selector, world: World) -> Iterator[Samples]:
    conditions = [Condition(m) for m in selector.matchers]
    for labels, samples in world.items():
        named = dict(labels)
        if all(c.accepts(named.get(c.matcher.name, "")) for c in conditions):
            yield [(t, v) for t, v in samples if v == v]


def _ends(selector: Selector, case: Case, samples: Samples) -> Iterable[int]:
    """Ends of windows; every second of the world where a subquery may ask at any."""
    if selector.at is not None:
        fixed = {"start": case.asked.start_ms, "end": case.asked.end_ms}.get(str(selector.at), selector.at)
        assert isinstance(fixed, int)
        return (fixed - selector.offset_ms,)
    if any(isinstance(node, Subquery) for node in walk(case.expr)) and samples:
        return range(samples[0][0] // 1000 * 1000, samples[-1][0] + 450_000, 1000)
    return (t - selector.offset_ms for t in case.asked.times())


def _window(samples: Samples, after_ms: int, until_ms: int) -> Samples:
    return [(t, v) for t, v in samples if after_ms < t <= until_ms]


def _otherwise(window: Samples, start_ms: int) -> bool:
    (first_ms, first), (last_ms, last) = window[0], window[-1]
    result = last - first + sum(a for (_, a), (_, b) in zip(window, window[1:], strict=False) if b < a)
    sampled_s = (last_ms - first_ms) / 1000
    spacing_s = sampled_s / (len(window) - 1)
    if not (result > 0 and first >= 0) or (first_ms - start_ms) / 1000 < spacing_s * 1.1:
        return False
    return spacing_s / 2 < sampled_s * (first / result) < spacing_s * 1.1
