"""Summaries for the tests of summaries and of their stores."""

from collections.abc import Sequence

import numpy as np

from precompute.sketches.base import Vectors
from precompute.sketches.registry import kept_of_vectors
from precompute.summaries import GroupKey, Summary, build
from tests.precompute.sketches.made import same_bits

WIDTH_MS = 15_000
ALL = tuple(sorted(kept_of_vectors()))


def ends(first: int, last: int) -> list[int]:
    """Ends of the panes first..last, counted from 1."""
    return [n * WIDTH_MS for n in range(first, last + 1)]


def summary(
    ends_ms: Sequence[int],
    keys: Sequence[GroupKey] = (("a",), ("b",)),
    seed: int = 0,
    accumulators: Sequence[str] = ALL,
    series: int = 20,
    present: float = 0.9,
    flags: int = 0,
) -> Summary:
    """Panes with `series` drawn series each; a pane's content depends on its end and `seed` alone."""
    panes = []
    for end in ends_ms:
        rng = np.random.default_rng([end, seed])
        panes.append((rng.normal(0, 100, series), rng.random(series) < present))
    values = np.array([p[0] for p in panes]).reshape(len(ends_ms), series).T.copy()
    here = np.array([p[1] for p in panes], np.bool_).reshape(len(ends_ms), series).T.copy()
    group = np.arange(series, dtype=np.int32) % max(len(keys), 1)
    shard = np.sort(np.arange(series, dtype=np.int32) % 4)
    n = len(ends_ms)
    return build(
        Vectors(values, here, group, shard, len(keys)),
        keys,
        accumulators,
        np.array(ends_ms, np.int64),
        np.arange(n, dtype=np.int64) + seed,
        np.full(n, 3, np.int64),
        np.full(n, flags, np.uint8),
    )


def same(a: Summary, b: Summary) -> bool:
    """The same panes with the same groups and the same bits, whatever unused keys they carry."""
    own = ("ends_ms", "row_off", "seen", "plan", "flags")
    return (
        all(getattr(a, name).tolist() == getattr(b, name).tolist() for name in own)
        and [a.keys[g] for g in a.group] == [b.keys[g] for g in b.group]
        and a.states.keys() == b.states.keys()
        and all(same_bits(a.states[name], b.states[name]) for name in a.states)
    )
