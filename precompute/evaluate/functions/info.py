"""info(): labels of info metrics, which describe what a series is about, added to the series.

Info series are those of `target_info`, or of the names that the second argument selects. They belong to the series
with the same `instance` and `job`; of several at one time the newest counts. Meanings: Prometheus 3, promql/info.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from precompute.errors import BadExpression, ExecutionError
from precompute.evaluate.context import Evaluate, Evaluation, Rule
from precompute.evaluate.expr import EQUAL, MATCHES, Call, Expr, Matcher, Selector, Subquery, children
from precompute.evaluate.functions.arguments import vector
from precompute.evaluate.functions.newest import newest_by_key
from precompute.evaluate.names import unique
from precompute.evaluate.ranges import read_instant
from precompute.evaluate.values import Frame, Value, Vector, common_symbols, joined
from precompute.kernels.labels import group_rows
from precompute.labels import METRIC_NAME
from precompute.matchers import Condition
from precompute.runs import SymbolTable
from precompute.samples import I32, I64, Bool

_IDENTIFYING = ("instance", "job")
_TARGET_INFO = Matcher(METRIC_NAME, EQUAL, "target_info")
_ANY_INFO = Matcher(METRIC_NAME, MATCHES, ".+_info")


def info_selector(node: Call) -> Selector:
    """What the info series of a call are read by, with the offset and @ of the first selector in its first argument."""
    if len(node.args) > 1 and not isinstance(node.args[1], Selector):
        raise BadExpression("parse error: expected label selectors only")
    asked = node.args[1].matchers if len(node.args) > 1 and isinstance(node.args[1], Selector) else ()
    offset_ms, at = next(_shifts(node.args[0], 0, None), (0, None))
    data = tuple(m for m in asked if m.name != METRIC_NAME)
    return Selector(tuple(sorted({*data, *_name_matchers(asked)})), offset_ms, at)


def _name_matchers(asked: Sequence[Matcher]) -> tuple[Matcher, ...]:
    """The conditions on the names of info metrics; those that only leave out names leave them out of all `_info`."""
    names = tuple(m for m in asked if m.name == METRIC_NAME)
    if not names:
        return (_TARGET_INFO,)
    return names if any(m.op in (EQUAL, MATCHES) for m in names) else (_ANY_INFO, *names)


def _shifts(expr: Expr, offset_ms: int, at: int | str | None) -> Iterator[tuple[int, int | str | None]]:
    """Offset and @ of each selector, from left to right: the innermost @ counts, with the offsets up to it.

    offset_ms, at: those of the subqueries around.
    """
    if isinstance(expr, (Selector, Subquery)):
        fixed = expr.at is not None
        offset_ms, at = (expr.offset_ms, expr.at) if fixed else (offset_ms + expr.offset_ms, at)
    if isinstance(expr, Selector):
        yield offset_ms, at
    for child in children(expr):
        yield from _shifts(child, offset_ms, at)


def _info(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    selector = info_selector(node)
    base = vector(node.args[0], at, evaluate)
    named = [Condition(m) for m in selector.matchers if m.name == METRIC_NAME]
    is_info = _fulfilling(base.frame, named)
    data = [m for m in selector.matchers if m.name != METRIC_NAME]
    infos = _about(read_instant(selector, at, sample_times=True), base.take(~is_info))
    enriched = _Join(base.take(~is_info), infos, data, at).done()
    return unique(joined([base.take(is_info), enriched], len(at.times)))


def _fulfilling(frame: Frame, conditions: Sequence[Condition]) -> Bool:
    """The rows whose metric name fulfils all conditions; each distinct name is asked about once."""
    codes = frame.spread((METRIC_NAME,), frame.symbols)[:, 0]
    distinct, place = np.unique(codes, return_inverse=True)
    names = frame.symbols.texts(distinct.tolist())
    return np.array([all(c.accepts(name) for c in conditions) for name in names], np.bool_)[place]


def _about(infos: Vector, base: Vector) -> Vector:
    """The info series that may belong to a row of `base`: each identifying label has a value that occurs there."""
    symbols = common_symbols((infos.frame, base.frame))
    mine, theirs = (frame.spread(_IDENTIFYING, symbols) for frame in (base.frame, infos.frame))
    known = [np.unique(column[column != 0]) for column in mine.T]
    good = np.full(len(infos), any(len(values) for values in known))
    for values, column in zip(known, theirs.T, strict=True):
        good &= np.isin(column, values) | (len(values) == 0)
    return infos.take(good)


@dataclass(frozen=True)
class _Join:
    """Rows and the info series that describe them, whose values are sample times in seconds."""

    base: Vector
    infos: Vector
    data: Sequence[Matcher]
    """Conditions on the labels of info series; where there are any, only their labels are added."""
    at: Evaluation

    def done(self) -> Vector:
        """Every row once per set of labels that it gets at some step, at the steps where it gets them."""
        if not len(self.base):
            return self.base
        pair, combination, chosen = self._combinations()
        keys = np.where(self.base.present, combination[pair], -1)
        steps = keys.shape[1]
        self.at.budget.cells(2 * len(keys), steps)
        flat = (np.arange(len(keys))[:, None] * (len(chosen) + 1) + keys + 1)[self.base.present]
        row, number = np.divmod(np.unique(flat), len(chosen) + 1)
        number = number - 1
        if not all(Condition(m).accepts("") for m in self.data):
            described = (chosen[number] >= 0).any(axis=1)
            row, number = row[described], number[described]
        self.at.budget.cells(len(row), steps)
        made = self.base.take(row)
        shard = np.zeros(len(row), np.int32)
        present = keys[row] == number[:, None]
        return replace(made, frame=self._frame(made.frame, chosen, number), present=present, shard=shard)

    def _combinations(self) -> tuple[I32, I32, I64]:
        """pair int32[n]: instance and job of each row as a number; combination int32[pairs, s]: which info series
        describe a pair at a step, as a number; chosen int64[combinations, metrics]: their rows, -1 for none."""
        symbols = common_symbols((self.base.frame, self.infos.frame))
        both = [frame.spread(_IDENTIFYING, symbols) for frame in (self.base.frame, self.infos.frame)]
        pairs, first = group_rows(np.ascontiguousarray(np.concatenate(both)))
        names = self.infos.frame.spread((METRIC_NAME,), self.infos.frame.symbols)[:, 0]
        metrics, metric = np.unique(names, return_inverse=True)
        steps = len(self.at.times)
        self.at.budget.cells(3 * len(metrics) * len(first), steps)
        newest = np.full((len(metrics) * len(first), steps), -1, np.int64)
        keys = metric * len(first) + pairs[len(self.base) :]
        newest_by_key(self.infos, keys, np.asarray(self.base.present.any(axis=0)), newest)
        rows = np.ascontiguousarray(newest.reshape(len(metrics), len(first) * steps).T.astype(np.int32))
        combination, at_first = group_rows(rows)
        return pairs[: len(self.base)], combination.reshape(len(first), steps), rows[at_first].astype(np.int64)

    def _frame(self, base: Frame, chosen: I64, number: I64) -> Frame:
        """The rows' labels with those of their info series; what a row has itself stays."""
        added = set(self.infos.frame.names) - {METRIC_NAME}
        added &= {m.name for m in self.data} or added
        names = tuple(sorted({*base.names, *added}))
        symbols = SymbolTable()
        codes = base.spread(names, symbols)
        info = self.infos.frame.spread(names, symbols)
        for k, name in enumerate(names):
            if name in added:
                fresh = _agreed(info[:, k], chosen, name)[number]
                codes[:, k] = np.where(codes[:, k] == 0, fresh, codes[:, k])
        return Frame(names, codes, symbols)


def _agreed(column: I32, chosen: I64, name: str) -> I32:
    """One label of each combination, int32[combinations]. Raises ExecutionError where its series differ in it."""
    values = np.where(chosen >= 0, column[chosen], 0)
    largest = values.max(axis=1, initial=0)
    if ((values != 0) & (values != largest[:, None])).any():
        raise ExecutionError(f"conflicting label: {name}")
    return np.asarray(largest, np.int32)


RULES: Mapping[str, Rule] = {"info": _info}
