"""What an aggregation costs, and what it saves, in nanoseconds of one core and in bytes.

The constants were measured over 20,000 series, one metric in 2,000 groups; another machine's are larger or smaller
together, which changes no order and only scales `max_cpu_share`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from precompute.aggregations import Aggregation
from precompute.evaluate.expr import Expr, Range, Selector, Subquery, children
from precompute.sketches.registry import accumulator, family_of

HOUR_MS = 3_600_000

_SERIES_NS = 40.0
"""To find one series' newest sample."""
_SAMPLE_NS = 14.0
"""To read one sample of a range."""
_GROUPING_NS = 60.0
"""To put one row into its group."""
_VALUE_NS = 15.0
"""To add one row to one accumulator."""
_GROUP_NS = 70.0
"""To read one group of one pane of a summary."""
_KEY_NS = 3000.0
"""To look at one group's key, once a query."""
_ROW_BYTES = 8
"""Of a group in a pane, beside its accumulators: which it is."""


@dataclass(frozen=True)
class Cost:
    """What it takes to keep something: of a core, as a share, and of memory and disk."""

    cpu_share: float
    bytes: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.cpu_share + other.cpu_share, self.bytes + other.bytes)


FREE = Cost(0.0, 0.0)


def evaluation_ns(expr: Expr, series: int, scrape_ms: int) -> float:
    """One evaluation of an expression whose selectors find so many series, scraped every scrape_ms."""
    windows = list(_samples(expr, scrape_ms)) or [1.0]
    return series * (_SERIES_NS + _SAMPLE_NS * sum(windows) / len(windows))


def _samples(expr: Expr, scrape_ms: int) -> Iterator[float]:
    """How many samples of each of its series every selector reads."""
    if isinstance(expr, Range):
        yield expr.range_ms / scrape_ms
    elif isinstance(expr, Selector):
        yield 1.0
    else:
        steps = expr.range_ms / (expr.step_ms or scrape_ms) if isinstance(expr, Subquery) else 1.0
        for child in children(expr):
            yield from (steps * count for count in _samples(child, scrape_ms))


def keeping(aggregation: Aggregation, series: int, groups: int, scrape_ms: int) -> Cost:
    """What one aggregation takes, all panes of its retention together.

    An evaluation that several aggregations share is counted for each.
    """
    names = aggregation.accumulators
    pane_ns = evaluation_ns(aggregation.expr, series, scrape_ms)
    pane_ns += series * (_GROUPING_NS + _VALUE_NS * len(names))
    panes = aggregation.retention_ms / aggregation.width_ms
    row = _ROW_BYTES + sum(row_bytes(name, series, groups) for name in names)
    return Cost(pane_ns / (aggregation.width_ms * 1e6), panes * groups * row)


def row_bytes(name: str, series: int, groups: int) -> float:
    """An accumulator's state of one group of average size."""
    return family_of(name).row_bytes(accumulator(name), -(-series // max(1, groups)))


def reading_ns(groups: int, accumulators: Sequence[str], steps: int) -> float:
    """A query of so many steps, from summaries."""
    return groups * (_KEY_NS + _GROUP_NS * len(accumulators) * steps)
