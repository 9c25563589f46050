"""Summaries: the accumulators of all groups of one aggregation, for one or more panes, as columns.

    pane     0            1      2
    row_off  0            3      3 (an empty pane: coverage)      5
    group    0   1   4           1   4                               -> keys[group]
    states   sum: one item per row, …

Rows of a pane stand in order of their groups' keys, and `keys` are sorted, so folding rows in order is folding
groups in order of their keys, the order in which re-aggregation takes its sums.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from precompute.samples import I32, I64, U8, Bool
from precompute.sketches.base import State, Vectors
from precompute.sketches.columns import concat_columns, empty_columns, size_bytes, take_columns
from precompute.sketches.exact import COUNT
from precompute.sketches.registry import accumulator

GroupKey = tuple[str, ...] | tuple[tuple[str, str], ...]
"""Grouping `by`: the values of its labels in their order, "" for an absent one. Else: the (name, value) pairs."""

FAILED, HOLE = 1, 2
"""Flags of a pane: its evaluation is an error in PromQL; samples of its reach are known to be missing."""


@dataclass(frozen=True)
class Summary:
    """P panes with `rows` rows in all; see the module's text."""

    ends_ms: I64
    """Ends of the panes, ascending; int64[P]."""
    row_off: I64
    """Rows of pane p are `row_off[p]:row_off[p + 1]`; int64[P + 1]."""
    group: I32
    """Index into `keys`, ascending within a pane; int32[rows]."""
    keys: tuple[GroupKey, ...]
    """Sorted, each once."""
    states: Mapping[str, State]
    """By accumulator name."""
    seen: I64
    """Newest log entry that went into each pane; int64[P]."""
    plan: I64
    """Number of the plan that each pane was computed under; int64[P]."""
    flags: U8
    """FAILED and HOLE; uint8[P]."""

    @property
    def panes(self) -> int:
        return len(self.ends_ms)

    @property
    def rows(self) -> int:
        return len(self.group)

    def pane_of_row(self) -> I64:
        """Index of each row's pane; int64[rows]."""
        return np.repeat(np.arange(self.panes), np.diff(self.row_off))

    def size_bytes(self) -> int:
        """Bytes of the columns in memory, and a fair guess at the keys'."""
        own = (self.ends_ms, self.row_off, self.group, self.seen, self.plan, self.flags)
        return sum(a.nbytes for a in own) + sum(map(size_bytes, self.states.values())) + 150 * len(self.keys)


def empty(accumulators: Sequence[str]) -> Summary:
    """A Summary of no panes."""
    none, states = np.zeros(0, np.int64), {name: empty_columns(accumulator(name).columns) for name in accumulators}
    return Summary(none, np.zeros(1, np.int64), none.astype(np.int32), (), states, none, none, none.astype(np.uint8))


def build(
    vectors: Vectors,
    keys: Sequence[GroupKey],
    accumulators: Sequence[str],
    ends_ms: I64,
    seen: I64,
    plan: I64,
    flags: U8,
) -> Summary:
    """Summarise P panes at once; `keys` (sorted) name the groups of `vectors`.

    A group without a value in a pane has no row there; a pane without any has no rows, and still stands.
    """
    counts = COUNT.build(vectors)
    picks = np.flatnonzero(counts["n"])
    built = {name: counts if name == "count" else accumulator(name).build(vectors) for name in accumulators}
    states = _taken(built, picks)
    pane, group = np.divmod(picks, max(vectors.groups, 1))
    whole = Summary(
        ends_ms, _offsets(pane, vectors.panes), group.astype(np.int32), tuple(keys), states, seen, plan, flags
    )
    return _without_unused_keys(whole)


def select(summary: Summary, picks: I64) -> Summary:
    """The panes `picks` (ascending indices). Keys stay as they are."""
    return summary if len(picks) == summary.panes else _panes(summary, picks)


def _panes(summary: Summary, picks: I64) -> Summary:
    lengths = np.diff(summary.row_off)[picks]
    row_off = np.zeros(len(picks) + 1, np.int64)
    np.cumsum(lengths, out=row_off[1:])
    rows = np.arange(row_off[-1]) + np.repeat(summary.row_off[picks] - row_off[:-1], lengths)
    return Summary(
        summary.ends_ms[picks],
        row_off,
        summary.group[rows],
        summary.keys,
        _taken(summary.states, rows),
        summary.seen[picks],
        summary.plan[picks],
        summary.flags[picks],
    )


def between(summary: Summary, after_ms: int, until_ms: int) -> Summary:
    """The panes whose end lies in `(after_ms, until_ms]`."""
    return select(summary, np.flatnonzero((summary.ends_ms > after_ms) & (summary.ends_ms <= until_ms)))


def pack(summaries: Sequence[Summary]) -> Summary:
    """One Summary of all panes, ascending; key tables are united.

    Raises ValueError if there is none, an end stands in two of them, or their accumulators differ.
    """
    if not summaries or any(s.states.keys() != summaries[0].states.keys() for s in summaries):
        raise ValueError("only summaries with the same accumulators can be packed, at least one")
    if len(summaries) == 1:
        return summaries[0]
    keys, groups = _united(summaries)
    packed = Summary(
        np.concatenate([s.ends_ms for s in summaries]),
        np.concatenate([[0], np.cumsum(np.concatenate([np.diff(s.row_off) for s in summaries]))]),
        np.concatenate(groups),
        keys,
        _stacked(summaries),
        np.concatenate([s.seen for s in summaries]),
        np.concatenate([s.plan for s in summaries]),
        np.concatenate([s.flags for s in summaries]),
    )
    return _in_order(packed)


def regroup(summary: Summary, into: I32, keys: Sequence[GroupKey]) -> Summary:
    """Filter and re-aggregate each pane: old group g becomes new group `into[g]`, or is left out if that is -1.

    keys: of the new groups, sorted. Sums are folded over the old groups in order of their keys. New groups
    that receive nothing in a pane have no row there.
    """
    target = into[summary.group].astype(np.int64)
    kept = np.flatnonzero(target >= 0)
    cells = summary.pane_of_row()[kept] * len(keys) + target[kept]
    off, group, states = _folded(summary.states, summary.rows, kept, cells, (summary.panes, len(keys)))
    return replace(summary, row_off=off, group=group, keys=tuple(keys), states=states)


def fold(parts: Sequence[Summary]) -> Summary:
    """One Summary of what several, made of disjoint series, say of the same panes; groups are merged in their order.

    A pane that FAILED in one of them failed and has no rows. Raises ValueError if there is none, or their panes or
    accumulators differ.
    """
    seen, plan, flags = common_panes(parts)
    keys, groups = _united(parts)
    pane = np.concatenate([part.pane_of_row() for part in parts])
    kept = np.flatnonzero(flags[pane] & FAILED == 0)
    cells = (pane * len(keys) + np.concatenate(groups))[kept]
    off, group, states = _folded(_stacked(parts), len(pane), kept, cells, (len(flags), len(keys)))
    return _without_unused_keys(Summary(parts[0].ends_ms, off, group, keys, states, seen, plan, flags))


def common_panes(parts: Sequence[Summary]) -> tuple[I64, I64, U8]:
    """`seen`, `plan` and `flags` of the panes that all the parts are of.

    Raises ValueError if there is no part, or their panes or accumulators differ.
    """
    if not parts or any(part.states.keys() != parts[0].states.keys() for part in parts):
        raise ValueError("only summaries with the same accumulators can be merged, at least one")
    if any(not np.array_equal(part.ends_ms, parts[0].ends_ms) for part in parts):
        raise ValueError("only summaries of the same panes can be merged")
    seen = np.max([part.seen for part in parts], axis=0)
    plan = np.min([part.plan for part in parts], axis=0)
    return seen, plan, np.bitwise_or.reduce([part.flags for part in parts])


def only(summary: Summary, accumulators: Sequence[str]) -> Summary:
    """The same with these accumulators alone: those that are not read need not be merged."""
    return replace(summary, states={name: summary.states[name] for name in accumulators})


def _folded(
    states: Mapping[str, State], rows: int, kept: I64, cells: I64, shape: tuple[int, int]
) -> tuple[I64, I32, dict[str, State]]:
    """`row_off`, `group` and states of panes × groups (`shape`), the row `kept[i]` merged into cell `cells[i]`."""
    panes, groups = shape
    filled = np.zeros(panes * groups, np.bool_)
    filled[cells] = True
    merged = _merged(states, rows, kept, (np.cumsum(filled) - 1)[cells], int(filled.sum()))
    pane, group = np.divmod(np.flatnonzero(filled), max(groups, 1))
    return _offsets(pane, panes), group.astype(np.int32), merged


def _merged(states: Mapping[str, State], rows: int, kept: I64, into: I64, n_rows: int) -> dict[str, State]:
    """The rows `kept`, each merged into its row of `into`; a mere rearrangement needs no merge."""
    if n_rows == len(kept):
        picks = np.empty(n_rows, np.int64)
        picks[into] = kept
        return _taken(states, picks)
    taken = states if len(kept) == rows else _taken(states, kept)
    return {name: accumulator(name).merge(state, into, n_rows) for name, state in taken.items()}


def _stacked(summaries: Sequence[Summary]) -> dict[str, State]:
    """The rows of all, one Summary after another."""
    names = summaries[0].states
    return {name: concat_columns(accumulator(name).columns, [s.states[name] for s in summaries]) for name in names}


def _taken(states: Mapping[str, State], rows: I64) -> dict[str, State]:
    return {name: take_columns(accumulator(name).columns, state, rows) for name, state in states.items()}


def _offsets(pane: I64, panes: int) -> I64:
    """Where the rows of each pane begin, from the ascending panes of the rows; int64[panes + 1]."""
    return np.searchsorted(pane, np.arange(panes + 1)).astype(np.int64)


def _used(summary: Summary) -> Bool:
    used = np.zeros(len(summary.keys), np.bool_)
    used[summary.group] = True
    return used


def _without_unused_keys(summary: Summary) -> Summary:
    used = _used(summary)
    if used.all():
        return summary
    keys = tuple(key for key, kept in zip(summary.keys, used.tolist(), strict=True) if kept)
    return replace(summary, keys=keys, group=(np.cumsum(used) - 1)[summary.group].astype(np.int32))


def _united(summaries: Sequence[Summary]) -> tuple[tuple[GroupKey, ...], list[I32]]:
    """One key table for all, and each summary's groups in it. Equal tables, the usual case, cost no lookup."""
    first = summaries[0].keys
    if all(s.keys is first or s.keys == first for s in summaries):
        return first, [s.group for s in summaries]
    tables = {id(s.keys): s.keys for s in summaries}
    keys = tuple(sorted(set().union(*tables.values())))
    place = {key: i for i, key in enumerate(keys)}
    moved = {name: np.array([place[k] for k in table], np.int32) for name, table in tables.items()}
    return keys, [moved[id(s.keys)][s.group] for s in summaries]


def _in_order(packed: Summary) -> Summary:
    """The panes in ascending order; those of packs may interleave."""
    steps = np.diff(packed.ends_ms)
    if (steps > 0).all():
        return packed
    order = np.argsort(packed.ends_ms, kind="stable")
    if (np.diff(packed.ends_ms[order]) == 0).any():
        raise ValueError("a pane stands in two summaries")
    return _panes(packed, order)
