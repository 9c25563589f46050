"""What samples that were not taken leave behind: holes, which an upstream can fill."""

import numpy as np

from precompute.labels import SeriesTable
from precompute.log.base import Hole
from precompute.samples import Block

EARLIEST_MS = -(1 << 63)


def holes_of(table: SeriesTable, block: Block) -> list[Hole]:
    """The holes that cover a block, one for each metric."""
    if not len(block):
        return []
    metrics = table.metric_ids(block.sid)
    order = np.argsort(metrics, kind="stable")
    named, first = np.unique(metrics[order], return_index=True)
    t_ms = block.t_ms[order]
    ends = (np.minimum.reduceat(t_ms, first).tolist(), np.maximum.reduceat(t_ms, first).tolist())
    names = table.symbols.texts(named.tolist())
    return [Hole(max(t - 1, EARLIEST_MS), until, name) for t, until, name in zip(*ends, names, strict=True)]
