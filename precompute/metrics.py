"""What the core shows of itself, read when it is scraped; each metric declared once."""

from collections.abc import Callable

from precompute.node import Node
from precompute.query_node import QueryNode


def _newest_pane_ms(node: QueryNode) -> int:
    engine = node.engine
    newest = [end_ms for kept in engine.aggregations if (end_ms := engine.newest_ms(kept)) is not None]
    return min(newest, default=0)


QUERY_GAUGES: tuple[tuple[str, str, Callable[[QueryNode], float]], ...] = (
    ("asap_head_series", "Series known to the head.", lambda n: len(n.head.table)),
    ("asap_head_samples", "Samples in the head.", lambda n: n.head.samples()),
    ("asap_head_bytes", "Memory that the head takes, labels included.", lambda n: n.head.size_bytes()),
    ("asap_head_max_bytes", "Its bound, head.max_bytes.", lambda n: n.head.max_bytes),
    ("asap_log_damaged_records", "Places in the log that could not be read.", lambda n: n.damaged_records()),
    ("asap_floor_seconds", "Samples at or before this time are refused.", lambda n: n.progress().floor_ms / 1000),
    ("asap_final_seconds", "Panes that end by this time never change.", lambda n: n.progress().final_ms / 1000),
    ("asap_holes", "Intervals in which samples are known to be missing.", lambda n: len(n.progress().holes)),
    ("asap_aggregations", "Aggregations that are kept.", lambda n: len(n.engine.aggregations)),
    ("asap_sealed_seconds", "Panes that end by this time are sealed.", lambda n: n.engine.sealed_ms() / 1000),
    ("asap_newest_pane_seconds", "End of the newest pane of the aggregation that is most behind; 0 without panes.",
     lambda n: _newest_pane_ms(n) / 1000),
)
"""Of whatever answers queries."""

GAUGES: tuple[tuple[str, str, Callable[[Node], float]], ...] = (
    ("asap_log_bytes", "Bytes of sample log retained.", lambda n: n.log.size_bytes()),
    ("asap_log_max_bytes", "Its bound, log.max_bytes.", lambda n: n.settings.log_max_bytes),
    ("asap_clock_drift_seconds", "Wall clock against time since boot; above 5 s the floor stays.",
     lambda n: n.intake.clock_drift_ms / 1000),
    ("asap_panes_behind", "Sealed panes that waited after the last tick.", lambda n: n.engine.health().behind_panes),
    ("asap_last_tick_seconds", "When the last tick ended.", lambda n: (n.engine.health().completed_ms or 0) / 1000),
)
COUNTERS: tuple[tuple[str, str, Callable[[Node], float]], ...] = (
    ("asap_ticks", "Ticks that ended well.", lambda n: n.engine.completed),
    ("asap_ticks_skipped", "Ticks skipped because one was still running.", lambda n: n.engine.skipped),
    ("asap_tick_cpu_seconds", "CPU time of ticks.", lambda n: n.engine.cpu_s),
    ("asap_aggregation_changes", "Times that what is kept was changed while running.", lambda n: n.engine.switches),
    ("asap_panes_summarised", "Panes committed, replaced ones included.", lambda n: n.engine.committed),
)
