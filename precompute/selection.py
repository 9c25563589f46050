"""From matchers to series: the inverted index, with the answers to repeated selectors kept."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from precompute.evaluate.expr import EQUAL, Matcher
from precompute.evaluate.values import Frame
from precompute.labels import SeriesTable
from precompute.matchers import Condition
from precompute.samples import I32, I64, Bool

_KEPT_SELECTIONS = 512
_KEPT_BYTES = 256 << 20
_TEXTS_AT_ONCE = 4096

Check = Callable[[], None]


class Selection:
    """The series of one selector in order of shard and label hash, and their labels as columns."""

    def __init__(self, table: SeriesTable, sids: I32) -> None:
        self.table, self.sids = table, sids
        self.shard = table.shard_of(sids)
        self.stored: I64 = np.argsort(sids)
        """Row numbers in order of ids, in which the samples lie in memory."""
        names = tuple(table.names_of(sids))
        self.frame = Frame(names, table.columns(sids, names), table.symbols)

    def __len__(self) -> int:
        return len(self.sids)

    def size_bytes(self) -> int:
        return self.sids.nbytes + self.shard.nbytes + self.frame.codes.nbytes


class Index:
    """Finds the series of a table that fulfil all of some matchers; begins anew when the table is another one."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Matcher, ...], tuple[int, Selection]] = OrderedDict()
        self._lock = threading.Lock()

    def select(
        self, matchers: tuple[Matcher, ...], table: SeriesTable, series: int, check: Check = lambda: None
    ) -> Selection:
        """Among series 0 to `series` - 1 of `table`. A repeated selector costs only what is new since.

        `check` is called again and again while values are matched; it raises where that takes too long.
        """
        with self._lock:
            upto, kept = self._kept.get(matchers, (0, None))
        if kept is not None and kept.table is not table:
            upto, kept = 0, None
        if kept is not None and upto >= series:
            return kept
        fresh = _match(table, matchers, upto, series, check)
        if kept is None or len(fresh):
            known = fresh if kept is None else np.concatenate((kept.sids, fresh))
            kept = Selection(table, table.in_hash_order(known))
        with self._lock:
            self._kept[matchers] = (series, kept)
            self._kept.move_to_end(matchers)
            self._forget_oldest()
        return kept

    def _forget_oldest(self) -> None:
        held = sum(selection.size_bytes() for _, selection in self._kept.values())
        while len(self._kept) > _KEPT_SELECTIONS or (held > _KEPT_BYTES and self._kept):
            _, (_, oldest) = self._kept.popitem(last=False)
            held -= oldest.size_bytes()


def _match(table: SeriesTable, matchers: Sequence[Matcher], first: int, last: int, check: Check) -> I32:
    """Ids in [first, last) that fulfil all matchers, ascending."""
    exact = [m for m in matchers if m.op == EQUAL and m.value]
    postings = sorted((table.posting(m.name, m.value) for m in exact), key=len)
    found = postings[0] if postings else np.arange(first, last, dtype=np.int32)
    found = found[np.searchsorted(found, first) : np.searchsorted(found, last)]
    for matcher in matchers:
        if len(found):
            found = found[_fulfils(table, matcher, found, check)]
    return found


def _fulfils(table: SeriesTable, matcher: Matcher, sids: I32, check: Check) -> Bool:
    """Which of these series fulfil one matcher; each distinct value is asked about once."""
    values = table.columns(sids, (matcher.name,))[:, 0]
    if matcher.op == EQUAL:
        return np.asarray(values == table.symbols.find(matcher.value))
    distinct, place = np.unique(values, return_inverse=True)
    condition = Condition(matcher)
    accepted: list[bool] = []
    for first in range(0, len(distinct), _TEXTS_AT_ONCE):
        check()
        texts = table.symbols.texts(distinct[first : first + _TEXTS_AT_ONCE].tolist())
        accepted += map(condition.accepts, texts)
    return np.array(accepted, np.bool_)[place]
