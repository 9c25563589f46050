"""Aggregations: what is kept.

An aggregation evaluates one instant-vector expression at each pane's end and adds its values up by group.
"""

import hashlib
from dataclasses import dataclass, field

from precompute.errors import BadExpression
from precompute.evaluate.expr import (
    Aggregate,
    Binary,
    Call,
    Expr,
    Matcher,
    Negate,
    Number,
    Range,
    Selector,
    children,
    selectors,
    walk,
    with_selector,
)  # fmt: skip
from precompute.evaluate.functions import OF_ONE_SERIES
from precompute.evaluate.grouping import grouping
from precompute.evaluate.values import Frame
from precompute.labels import METRIC_NAME
from precompute.sketches.base import Vectors
from precompute.sketches.registry import accumulator
from precompute.summaries import GroupKey

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

    def __post_init__(self) -> None:
        if problem := _problem(self.expr, self.accumulators):
            raise BadExpression(f"aggregation of {self.expr}: {problem}")
        text = "\0".join(map(repr, (
            _SEMANTICS, str(self.expr), self.labels, self.without, tuple(sorted(self.accumulators)),
            self.width_ms, self.lookback_ms,
        )))  # fmt: skip
        object.__setattr__(self, "id", hashlib.blake2b(text.encode(), digest_size=8).hexdigest())

    @property
    def reach_ms(self) -> int:
        """How far before a pane's end the expression looks."""
        return reach_ms(self.expr, self.lookback_ms)

    @property
    def selector(self) -> Selector:
        return selectors(self.expr)[0]

    def keeps(self, label: str) -> bool:
        """Whether groups tell apart values of this label."""
        return label != METRIC_NAME and (label in self.labels) != self.without

    def frame(self, frame: Frame) -> Frame:
        """The grouping labels of series, as columns; for `by`, all of `labels` and in their order."""
        return grouping(frame, self.labels, self.without)

    def labels_of(self, key: GroupKey) -> dict[str, str]:
        """The labels that a group's key stands for; absent ones may be the empty string."""
        pairs = key if self.without else zip(self.labels, key, strict=True)
        return dict(pairs)  # type: ignore[arg-type]  # which of the two kinds a key is, `without` says

    def grouping_text(self) -> str:
        """`by (a, b)` or `without (c)`."""
        return f"{'without' if self.without else 'by'} ({', '.join(self.labels)})"


def reach_ms(expr: Expr, lookback_ms: int) -> int:
    """The largest, over all paths to a selector, of ranges plus offsets plus, for an instant selector, the lookback."""
    if isinstance(expr, Range):
        return expr.range_ms + max(0, expr.selector.offset_ms)
    if isinstance(expr, Selector):
        return lookback_ms + max(0, expr.offset_ms)
    return max((reach_ms(child, lookback_ms) for child in children(expr)), default=0)


def skeleton(expr: Expr) -> tuple[Expr, tuple[Matcher, ...]]:
    """An expression of one selector without its label conditions, offset and @; and those conditions.

    The metric name stays in the skeleton.
    """
    selector = selectors(expr)[0]
    name = tuple(m for m in selector.matchers if m.name == METRIC_NAME)
    rest = tuple(m for m in selector.matchers if m.name != METRIC_NAME)
    return with_selector(expr, Selector(name)), rest


def why_not_kept(expr: Expr) -> str:
    """Why no snapshot can be kept of an expression; empty if one can."""
    found = selectors(expr)
    if len(found) != 1:
        return f"{len(found)} selectors; one is needed"
    if found[0].metric() is None:
        return "the metric name is not fixed"
    for node in walk(expr):
        if isinstance(node, Aggregate):
            return "an aggregation operator inside"
        if isinstance(node, Binary) and not _one_side_is_a_number(node):
            return f"operator {node.op} between other things than a vector and a number"
        if isinstance(node, Call) and (node.function not in OF_ONE_SERIES or not selectors(node)):
            return f"{node.function} inside, which does not look at one series alone"
        if not isinstance(node, (Binary, Call, Negate, Number, Range, Selector)):
            return f"{type(node).__name__.lower()} inside"
    return ""


def _problem(expr: Expr, accumulators: tuple[str, ...]) -> str:
    for name in accumulators:
        if why := _why_no_accumulator(name):
            return why
    shifted = [s for s in selectors(expr) if s.offset_ms or s.at is not None]
    if shifted:
        return "offset and @ choose the pane that is read and are no part of an aggregation"
    if isinstance(expr, Range):
        return "a range vector; put a function over it"
    return why_not_kept(expr)


def _why_no_accumulator(name: str) -> str:
    """Why an aggregation of snapshots cannot keep this accumulator; empty if it can."""
    try:
        found = accumulator(name)
    except ValueError as error:
        return str(error)
    if found.feeds is not Vectors:
        return f"{name} is made from single samples, not from values at a pane's end"
    return "" if found.name == name else f"accumulator {name} is written {found.name}"


def _one_side_is_a_number(node: Binary) -> bool:
    return not selectors(node.left) or not selectors(node.right)


def group_keys(frame: Frame, aggregation: Aggregation) -> tuple[GroupKey, ...]:
    """The keys of the groups of a frame of grouping labels, row by row."""
    if aggregation.without:
        return tuple(frame.labels(row) for row in range(len(frame)))
    texts = [frame.symbols.texts(column.tolist()) for column in frame.codes.T]
    own = dict(zip(frame.names, texts, strict=True))
    blank = [""] * len(frame)
    return tuple(zip(*(own.get(label, blank) for label in aggregation.labels), strict=True)) or ((),) * len(frame)
