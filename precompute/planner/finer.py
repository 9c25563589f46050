"""Which aggregations answer all that others do."""

from precompute.aggregations import Aggregation


def answers_all(one: Aggregation, other: Aggregation) -> bool:
    """Whether one answers all that another does, at every step that has a pane of the other."""
    same = (one.expr, one.lookback_ms, one.without) == (other.expr, other.lookback_ms, other.without)
    if one.id == other.id or not same or other.width_ms % one.width_ms:
        return False
    small, large = (one, other) if one.without else (other, one)
    return set(small.labels) <= set(large.labels) and set(other.accumulators) <= set(one.accumulators)


def finer(one: Aggregation, other: Aggregation) -> bool:
    """Whether one answers all that another does, for as long."""
    return one.width_ms < other.width_ms and one.retention_ms >= other.retention_ms and answers_all(one, other)
