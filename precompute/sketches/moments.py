"""The moments behind stddev and stdvar: n, mean, and M2, the sum of squared distances from the mean.

Values of one shard are taken in by Welford's rule, as PromQL does (prometheus/promql/engine.go, aggregation).
Shards, and groups, are joined by that of Chan, Golub and LeVeque (1979, "Updating formulae and a pairwise algorithm
for computing sample variances").
"""

import numpy as np

from precompute.kernels import kernel
from precompute.samples import F64, I32, I64, Bool
from precompute.sketches.base import Column, State
from precompute.sketches.exact import Exact, family, in_order


@kernel
def _join(n: int, mean: float, m2: float, n2: int, mean2: float, m22: float) -> tuple[int, float, float]:
    """Chan's rule. Once a moment is NaN (a value was not finite) or infinite (overflow) it stays so, NaN first."""
    if n == 0 or n2 == 0:
        return (n2, mean2, m22) if n == 0 else (n, mean, m2)
    if np.isnan(m2) or np.isnan(m22):
        return n + n2, np.nan, np.nan
    delta = mean2 - mean
    joined = m2 + m22 + delta * delta * (n * (n2 / (n + n2)))
    if not np.isfinite(joined):
        return n + n2, 0.0, np.inf
    return n + n2, mean + delta * (n2 / (n + n2)), joined


@kernel
def _build_moments(values: F64, present: Bool, group: I32, shard: I32, groups: int) -> tuple[I64, F64, F64]:
    """n, mean and M2 as [groups, P]; a group's shards in order, as in exact.py's sums."""
    rows, panes = values.shape
    n, mean, m2 = np.zeros((2, groups, panes), np.int64), np.zeros((2, groups, panes)), np.zeros((2, groups, panes))
    last = np.full(groups, -1, np.int32)
    for i in range(rows):
        g = group[i]
        if last[g] != shard[i]:
            _fold_moments(n[:, g], mean[:, g], m2[:, g])
            last[g] = shard[i]
        for p in range(panes):
            if present[i, p]:
                v = values[i, p]
                k = n[1, g, p] + 1
                n[1, g, p] = k
                if not np.isfinite(v) or np.isnan(m2[1, g, p]):
                    mean[1, g, p], m2[1, g, p] = np.nan, np.nan
                    continue
                delta = v - mean[1, g, p]
                mean[1, g, p] += delta / k
                m2[1, g, p] += delta * (v - mean[1, g, p])
                if not np.isfinite(m2[1, g, p]):
                    mean[1, g, p], m2[1, g, p] = 0.0, np.inf
    for g in range(groups):
        _fold_moments(n[:, g], mean[:, g], m2[:, g])
    return n[0], mean[0], m2[0]


@kernel
def _fold_moments(n: I64, mean: F64, m2: F64) -> None:
    """Join plane 1 (one shard) into plane 0 (all shards before) and clear it; arrays [2, P]."""
    for p in range(n.shape[1]):
        n[0, p], mean[0, p], m2[0, p] = _join(n[0, p], mean[0, p], m2[0, p], n[1, p], mean[1, p], m2[1, p])
        n[1, p], mean[1, p], m2[1, p] = 0, 0.0, 0.0


@kernel
def _merge_moments(n: I64, mean: F64, m2: F64, into: I64, n_rows: int) -> tuple[I64, F64, F64]:
    n_out, mean_out, m2_out = np.zeros(n_rows, np.int64), np.zeros(n_rows), np.zeros(n_rows)
    for i in range(len(into)):
        r = into[i]
        n_out[r], mean_out[r], m2_out[r] = _join(n_out[r], mean_out[r], m2_out[r], n[i], mean[i], m2[i])
    return n_out, mean_out, m2_out


def variance_of(state: State) -> F64:
    """PromQL's stdvar: of the population; NaN where a value is not finite."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(state["m2"] / state["n"])


def variance_covered(state: State) -> Bool:
    """False where squares of finite values overflowed."""
    return np.asarray(~np.isinf(state["m2"]))


STDDEV = Exact(
    "stddev",
    (Column("n", "<i8"), Column("mean", "<f8"), Column("m2", "<f8")),
    lambda v: _build_moments(*in_order(v)),
    _merge_moments,
    {"stdvar": variance_of, "stddev": lambda s: np.sqrt(variance_of(s))},
)
FAMILY = family(STDDEV, "number, mean and squared distances from it")
