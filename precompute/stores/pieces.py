"""Pieces: the summaries of 1 to PACK_PANES panes that a store keeps, and how they are cut and joined.

The piece is what is written and cached as one. Their panes never overlap, but their intervals may: a gap
inside a pack is filled later by a piece of its own.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np

from precompute.samples import I64
from precompute.stores.base import PACK_PANES
from precompute.summaries import GroupKey, Summary, between, empty, pack, select


class HasEnds(Protocol):
    """A Summary, or what is known of one that is not loaded."""

    @property
    def ends_ms(self) -> I64:
        """Ends of the panes, ascending; at least one."""


NEVER_MS = -(1 << 62)
"""Before the end of any pane."""

P = TypeVar("P", bound=HasEnds)
Keys = tuple[GroupKey, ...]


def touches(piece: HasEnds, after_ms: int, until_ms: int) -> bool:
    """Whether the piece's interval meets `(after_ms, until_ms]`; it may still have no pane in it."""
    return bool(piece.ends_ms[-1] > after_ms and piece.ends_ms[0] <= until_ms)


def joined(pieces: Sequence[Summary], after_ms: int, until_ms: int) -> Summary:
    """The panes of the pieces with end in `(after_ms, until_ms]`, as one Summary."""
    parts = [part for piece in pieces if (part := between(piece, after_ms, until_ms)).panes]
    return pack(parts) if parts else empty(())


def cut(summary: Summary) -> list[Summary]:
    """Pieces of PACK_PANES panes, and the rest; none of no panes."""
    panes = np.arange(summary.panes)
    return [select(summary, panes[i : i + PACK_PANES]) for i in range(0, summary.panes, PACK_PANES)]


def without(piece: Summary, ends_ms: I64) -> Summary:
    """The panes whose ends are not among `ends_ms`; may be none."""
    return select(piece, np.flatnonzero(~np.isin(piece.ends_ms, ends_ms)))


def shares_a_pane(piece: HasEnds, ends_ms: I64) -> bool:
    return touches(piece, int(ends_ms[0]) - 1, int(ends_ms[-1])) and bool(np.isin(piece.ends_ms, ends_ms).any())


def loose(pieces: Sequence[P], until_ms: int) -> list[P]:
    """Of pieces in order of their last ends, those to be packed: the first ones, in multiples of PACK_PANES panes."""
    ready = [p for p in pieces if len(p.ends_ms) < PACK_PANES and p.ends_ms[-1] <= until_ms]
    wanted = sum(len(p.ends_ms) for p in ready) // PACK_PANES * PACK_PANES
    before = np.cumsum([0, *(len(p.ends_ms) for p in ready)])
    return [p for p, start in zip(ready, before, strict=False) if start < wanted]


def with_keys(summary: Summary, known: Keys | None) -> Summary:
    """The same, with the very key table `known` if it is equal: packing then need not compare them."""
    return replace(summary, keys=known) if known is not None and known == summary.keys else summary
