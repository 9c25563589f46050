"""REQ: quantiles whose bound in rank narrows towards the largest values.

Cormode, Karnin, Liberty, Thaler and Veselý 2021, "Relative error streaming quantiles": each level keeps its largest
values and halves the others, in sections that a schedule opens one after another. The bound is three standard errors
as Apache DataSketches states them, sqrt(0.0512 / 3) / k each, times 1 - φ; docs/accuracy.md shows what is measured
here. Of `datasketches` itself this takes nothing: its coins are drawn at random, and it holds float32 alone.
"""

import math
from typing import Any

from precompute.sketches.base import Accumulator, Bound
from precompute.sketches.compactor_kernels import SECTIONS
from precompute.sketches.compactors import Compactors
from precompute.sketches.family import Family, Parameter

_FACTOR = 3 * math.sqrt(0.0512 / SECTIONS)


def upper_rank_error(k: int) -> float:
    """Largest error in rank as a share of 1 - φ, at 99.7 % confidence."""
    return _FACTOR / k


def _make(name: str, k: int = 12) -> Compactors:
    if k % 2:
        raise ValueError(f"k should be even, not {k}")
    return Compactors(name, k, True, Bound("upper rank", upper_rank_error(k), 0.997))


def _fit(error: float) -> dict[str, int]:
    k = math.ceil(_FACTOR / error)
    return {"k": max(12, k + k % 2)}


def _row_bytes(found: Accumulator[Any], n: int) -> float:
    assert isinstance(found, Compactors)
    levels = max(1, math.ceil(math.log2(max(n / (6 * found.k), 1))) + 1)
    return 52 + 8 * min(n, 16 * found.k * levels) + 13 * levels


FAMILY = Family(
    "req",
    "REQ: like KLL, and closer the larger the values",
    _make,
    _row_bytes,
    (Parameter("k", 12, 4, 128, "values of a section; even"),),
    _fit,
    few=71,
)
