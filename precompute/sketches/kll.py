"""KLL: quantiles with a bound in rank (Karnin, Lang and Liberty 2016, "Optimal quantile approximation in streams").

Levels grow geometrically towards the top, and the lowest full one is halved when all of them are. The bound,
2.296 / k^0.9723 in rank at 99 % confidence, is the one that Apache DataSketches measured for these capacities;
docs/accuracy.md shows what is measured here. Of `datasketches` itself this takes nothing: its coins are drawn at
random, and the same samples would give other bits in another process.
"""

import math
from typing import Any

from precompute.sketches.base import Accumulator, Bound
from precompute.sketches.compactors import Compactors
from precompute.sketches.family import Family, Parameter

_FACTOR, _POWER = 2.296, 0.9723
LEAST_FITTED = 200
"""No accuracy that is asked for is so low that a smaller k is chosen."""


def rank_error(k: int) -> float:
    """Largest error in rank, at 99 % confidence."""
    return float(_FACTOR / k**_POWER)


def _make(name: str, k: int = 200) -> Compactors:
    return Compactors(name, k, False, Bound("rank", rank_error(k), 0.99))


def _row_bytes(found: Accumulator[Any], n: int) -> float:
    assert isinstance(found, Compactors)
    levels = max(1, math.ceil(math.log2(max(n / found.k, 1))) + 1)
    return 52 + 8 * min(n, 3 * found.k + 8 * levels) + 4 * levels


FAMILY = Family(
    "kll",
    "KLL: a share of the values in levels; bound in rank",
    _make,
    _row_bytes,
    (Parameter("k", 200, 8, 4096, "size of the highest level"),),
    lambda error: {"k": max(LEAST_FITTED, math.ceil((_FACTOR / error) ** (1 / _POWER)))},
    few=200,
)
