"""The result cache as one range query uses it: which of its steps may be kept, and under which stamps."""

import hashlib

import numpy as np

from precompute.engines.minibatch import MiniBatchEngine
from precompute.evaluate.values import Scalar, Value, Vector
from precompute.labels import SeriesTable
from precompute.samples import I64, Bool
from query.asking import Asking
from query.assign import HERE, NOBODY, SUMMARY, UPSTREAM, Codes, signatures
from query.cache import ResultCache, head_stamp
from query.plan import Plan
from query.questions import question, why_not
from query.tiers.head import looks
from query.tiers.summary import pane_times

_OF_THE_METRIC = ("__type__", "__unit__")


class Memory:
    """The cache, and what stamps are made of."""

    def __init__(self, cache: ResultCache, engine: MiniBatchEngine) -> None:
        self.cache, self.engine = cache, engine

    def recall(self, asking: Asking) -> "Recall | None":
        """For a query whose steps can be answered apart; None for any other."""
        head = self.engine.intake.head
        if asking.at.step_ms == 0 or why_not(
            asking.plan.expr, asking.at.features.delayed_name_removal, _is_typed(head.table)
        ):
            return None
        return Recall(self, asking)


class Recall:
    """One query's steps, as far as they are in the cache or shall be."""

    def __init__(self, memory: Memory, asking: Asking) -> None:
        self._memory, self._asking = memory, asking
        self._question = question(asking.plan.expr, asking.steps, asking.at.lookback_ms)
        self._settled = _settled(asking, memory.engine.sealed_ms())
        self._made: list[tuple[Bool, I64, Vector | Scalar]] = []
        self._stamp = np.zeros((0, 0), np.int64)

    def find(self, codes: Codes, left: Bool) -> tuple[Bool, Value | None]:
        """Of the steps that are left, bool[s], which are in the cache as assigned; and the values at those.

        Called before anything is evaluated, since it takes the stamps of what will be.
        """
        self._stamp = self._stamps(codes)
        where = left & self._usable(codes)
        if not where.any():
            return where, None
        hit, value = self._memory.cache.find(self._question, self._asking.at.times[where], self._stamp[:, where])
        where[where] = hit
        return where, value

    def note(self, codes: Codes, where: Bool, value: Value) -> None:
        """The value at the steps bool[s], evaluated as assigned."""
        if not isinstance(value, (Vector, Scalar)):
            return
        kept = self._usable(codes)[where]
        if kept.any():
            picked = where.copy()
            picked[where] = kept
            some = value.values[..., kept]
            narrowed = (
                Scalar(some) if isinstance(value, Scalar)
                else Vector(value.frame, some, value.present[:, kept], value.shard, value.drop_name)
            )  # fmt: skip
            self._made.append((picked, self._stamp[:, picked], narrowed))

    def keep(self) -> None:
        """Put what was noted into the cache, unless something was remarked on: on which steps is not known."""
        if self._asking.at.notes.warnings or self._asking.at.notes.infos:
            return
        for where, stamp, value in self._made:
            self._memory.cache.keep(self._question, self._asking.at.times[where], stamp, value)

    def _usable(self, codes: Codes) -> Bool:
        """Steps that are sealed and all of which is served here, bool[s]."""
        return np.asarray(self._settled & ~((codes == UPSTREAM) | (codes == NOBODY)).any(axis=0))

    def _stamps(self, codes: Codes) -> I64:
        """int64[k, s]: how a step is served, the newest entry that its leaves see, and what each of its panes has."""
        asking, books = self._asking, self._memory.engine.books
        rows = [_signature(asking.plan, codes), self._newest(codes)]
        for node in asking.plan.nodes:
            if node.coverage is not None:
                seen = books[node.coverage.aggregation.id].seen(pane_times(node.coverage, asking.steps))
                rows.append(np.where(codes[node.number] == SUMMARY, seen, 0))
        return np.stack(rows)

    def _newest(self, codes: Codes) -> I64:
        asking, touched = self._asking, self._memory.engine.intake.touched
        newest = np.zeros(codes.shape[1], np.int64)
        for node in asking.plan.nodes:
            here = codes[node.number] == HERE
            if node.selectors and not node.children and here.any():
                seen = head_stamp(touched, node.expr, asking.steps, asking.at.lookback_ms)
                newest[here] = np.maximum(newest, seen)[here]
        return newest


def _settled(asking: Asking, sealed_ms: int) -> Bool:
    """Steps that look at nothing younger than what is sealed, bool[s]."""
    settled = np.asarray(asking.at.times <= sealed_ms)
    for look in looks(asking.plan.expr, asking.steps, asking.at.lookback_ms):
        settled &= look.until <= sealed_ms
    return settled


def _signature(plan: Plan, codes: Codes) -> I64:
    """A number per step that tells how it is served and by which aggregations, int64[s]."""
    out = np.zeros(codes.shape[1], np.int64)
    for code, alike in signatures(codes):
        kept = [n.coverage.aggregation.id for n in plan.nodes if n.coverage is not None and code[n.number] == SUMMARY]
        digest = hashlib.blake2b(code.tobytes() + "".join(kept).encode(), digest_size=8).digest()
        out[alike] = int.from_bytes(digest, "little", signed=True)
    return out


def _is_typed(table: SeriesTable) -> bool:
    """Whether series may say their metric's type or unit."""
    return any(table.value_ids(name) for name in _OF_THE_METRIC)
