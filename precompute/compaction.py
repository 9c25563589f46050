"""Letting go of series that hold no samples any more: a new table of the living ones, put in the old one's place.

Ids change with the table. Whoever got ids from the old one notices: `Head.reading` and `Intake.write` take the
table that the ids are from, and raise TableReplaced if it is no longer theirs.
"""

import logging
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from precompute.errors import Rejected
from precompute.head import Head
from precompute.labels import SeriesTable
from precompute.samples import I32

logger = logging.getLogger(__name__)

_FEWEST_DEAD, _FEWEST_DEAD_BYTES = 10_000, 16 << 20
_PART_OF_FULL = 64
"""In a full head one in so many bytes of labels is worth it: nothing is written until it has room."""


class Holder(Protocol):
    """Who appends to a head."""

    @property
    def head(self) -> Head: ...

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held by whoever appends."""

    @property
    def intern_lock(self) -> AbstractContextManager[Any]:
        """Held by whoever adds to the table."""

    def rotate(self, table: SeriesTable) -> None:
        """Use ids of this table from now on; called under both locks. Raises Rejected, and nothing has changed."""


def worth_compacting(head: Head) -> bool:
    """Whether half of the series or of their labels, and enough of them, hold no samples; in a full head a small part.

    Series that were made known and never had a sample count too: a write that is under way looks them up again.
    """
    label_bytes = head.table.label_bytes()
    dead = ~head.holding(np.arange(len(label_bytes), dtype=np.int32))
    count, dead_bytes, all_bytes = int(dead.sum()), int(label_bytes[dead].sum()), int(label_bytes.sum())
    if count >= _FEWEST_DEAD and 2 * count >= len(dead):
        return True
    if dead_bytes >= _FEWEST_DEAD_BYTES and 2 * dead_bytes >= all_bytes:
        return True
    return count > 0 and _PART_OF_FULL * dead_bytes >= all_bytes and _is_full(head)


def _is_full(head: Head) -> bool:
    try:
        head.check_room()
    except Rejected:
        return True
    return False


def compact(holder: Holder) -> None:
    """Replace table, head columns and log segment. Most of the copying is done before writers are held up."""
    old = holder.head.table
    new = SeriesTable(old.hash_seed, old.shards)
    moved = _copy(old, new, _alive(holder.head), np.full(len(old), -1, np.int32))
    with holder.lock, holder.intern_lock:
        known = np.full(len(old), -1, np.int32)
        known[: len(moved)] = moved
        moved = _copy(old, new, _alive(holder.head), known)
        holder.rotate(new)
        holder.head.replace_table(new, moved)
    logger.info("%d of %d series held no samples and were let go", len(old) - len(new), len(old))


def _alive(head: Head) -> I32:
    every = np.arange(head.series_count(), dtype=np.int32)
    return every[head.holding(every)]


def _copy(old: SeriesTable, new: SeriesTable, sids: I32, moved: I32) -> I32:
    """Intern those of `sids` that have no new id yet; new ids by old ones, -1 for those left behind."""
    missing = sids[moved[sids] < 0]
    raw, offsets = old.canonical(missing)
    moved[missing] = new.intern_runs(raw, offsets[:-1], np.diff(offsets))
    return moved
