"""Aggregations: what is kept.

An aggregation evaluates one instant-vector expression at each pane's end and adds its values up by group.
"""

import hashlib
from dataclasses import dataclass, field

from precompute.errors import BadExpression
from precompute.evaluate.expr import Expr, Subquery, walk
from precompute.evaluate.grouping import grouping
from precompute.evaluate.values import Frame
from precompute.labels import METRIC_NAME
from precompute.normal import Normal, metrics, normal, reach_ms, why_not_kept
from precompute.sketches.base import Vectors
from precompute.sketches.registry import accumulator
from precompute.summaries import GroupKey

LONGEST_RETENTION_MS = 3650 * 86_400_000

_SEMANTICS = 1
"""Part of every id; raised when the same definition comes to mean other values."""


@dataclass(frozen=True)
class Aggregation:
    """One definition. Its id hashes all that decides its values, so not the retention."""

    expr: Expr
    labels: tuple[str, ...]
    """Sorted. Grouping labels, or those left out where `without`; no label and `without`: one group a series."""
    without: bool
    accumulators: tuple[str, ...]
    width_ms: int
    lookback_ms: int
    retention_ms: int
    id: str = field(init=False)
    normal: Normal = field(init=False, compare=False, repr=False)
    metrics: tuple[str, ...] = field(init=False, compare=False, repr=False)
    """Those that the expression looks at, sorted."""

    def __post_init__(self) -> None:
        if problem := _problem(self.expr, self.accumulators):
            raise BadExpression(f"aggregation of {self.expr}: {problem}")
        object.__setattr__(self, "normal", normal(self.expr))
        object.__setattr__(self, "metrics", metrics(self.expr))
        text = "\0".join(map(repr, (
            _SEMANTICS, str(self.expr), self.labels, self.without, tuple(sorted(self.accumulators)),
            self.width_ms, self.lookback_ms,
        )))  # fmt: skip
        object.__setattr__(self, "id", hashlib.blake2b(text.encode(), digest_size=8).hexdigest())

    @property
    def reach_ms(self) -> int:
        """How far before a pane's end the expression looks."""
        return reach_ms(self.expr, self.lookback_ms)

    def keeps(self, label: str) -> bool:
        """Whether groups tell apart values of this label."""
        return label != METRIC_NAME and (label in self.labels) != self.without

    def frame(self, frame: Frame) -> Frame:
        """The grouping labels of series, as columns; for `by`, all of `labels` and in their order."""
        return grouping(frame, self.labels, self.without)

    def grouping_text(self) -> str:
        """`by (a, b)` or `without (c)`."""
        return f"{'without' if self.without else 'by'} ({', '.join(self.labels)})"


def _problem(expr: Expr, accumulators: tuple[str, ...]) -> str:
    for name in accumulators:
        if why := _why_no_accumulator(name):
            return why
    if why := why_not_kept(expr):
        return why
    if any(isinstance(node, Subquery) and node.step_ms is None for node in walk(expr)):
        return "a subquery that does not say its step"
    shift = normal(expr)
    if shift.offset_ms or shift.at is not None:
        return "offset and @ choose the pane that is read and are no part of an aggregation"
    return ""


def _why_no_accumulator(name: str) -> str:
    """Why an aggregation of snapshots cannot keep this accumulator; empty if it can."""
    try:
        found = accumulator(name)
    except ValueError as error:
        return str(error)
    if found.feeds is not Vectors:
        return f"{name} is made from single samples, not from values at a pane's end"
    return "" if found.name == name else f"accumulator {name} is written {found.name}"


def group_keys(frame: Frame, aggregation: Aggregation) -> tuple[GroupKey, ...]:
    """The keys of the groups of a frame of grouping labels, row by row."""
    if aggregation.without:
        return tuple(frame.labels(row) for row in range(len(frame)))
    texts = [frame.symbols.texts(column.tolist()) for column in frame.codes.T]
    own = dict(zip(frame.names, texts, strict=True))
    blank = [""] * len(frame)
    return tuple(zip(*(own.get(label, blank) for label in aggregation.labels), strict=True)) or ((),) * len(frame)


def labels_of(key: GroupKey, labels: tuple[str, ...], without: bool) -> dict[str, str]:
    """The labels that a group's key stands for, grouped by or without `labels`; absent ones may be the empty string."""
    pairs = key if without else zip(labels, key, strict=True)
    return dict(pairs)  # type: ignore[arg-type]  # which of the two kinds a key is, `without` says
