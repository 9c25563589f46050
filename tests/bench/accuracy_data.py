"""The data that estimates are measured on, and exact answers over them."""

import math
from collections.abc import Callable

import numpy as np

from precompute.samples import F64

Draw = Callable[[np.random.Generator, int], F64]


def _spiky(draw: np.random.Generator, n: int) -> F64:
    return np.where(draw.random(n) < 0.02, draw.uniform(500, 1000, n), draw.uniform(0, 1, n))


def _bimodal(draw: np.random.Generator, n: int) -> F64:
    return np.where(draw.random(n) < 0.5, draw.normal(-100, 1, n), draw.normal(1000, 30, n))


DISTRIBUTIONS: dict[str, Draw] = {
    "uniform": lambda draw, n: draw.uniform(0, 1000, n),
    "normal": lambda draw, n: draw.normal(0, 1, n),
    "lognormal": lambda draw, n: draw.lognormal(0, 3, n),
    "zipf(1.01)": lambda draw, n: draw.zipf(1.01, n).astype(np.float64),
    "bimodal": _bimodal,
    "spiky": _spiky,
    "constant": lambda draw, n: np.full(n, 42.5),
    "trace-like": lambda draw, n: np.cumsum(draw.normal(0, 1, n)) + 200,
}


def drawn(name: str, n: int, seed: int) -> F64:
    """The same name, size and seed give the same values."""
    return DISTRIBUTIONS[name](np.random.default_rng((seed, n)), n)


def neighbours(ordered: F64, phi: float) -> tuple[float, float, float]:
    """The two order statistics that PromQL interpolates between for φ, and its quantile."""
    rank = phi * (len(ordered) - 1)
    lower = math.floor(rank)
    a, b = float(ordered[lower]), float(ordered[min(lower + 1, len(ordered) - 1)])
    return a, b, a * (1 - (rank - lower)) + b * (rank - lower)


def rank_error(ordered: F64, phi: float, estimate: float) -> float:
    """How far φ is from the nearest φ' of which `estimate` is the exact quantile, roundings aside."""
    last, least = max(len(ordered) - 1, 1), 1e-14 * abs(estimate)
    first = int(np.searchsorted(ordered, estimate - least, "left"))
    after = int(np.searchsorted(ordered, estimate + least, "right"))
    if first == after:
        if first in (0, len(ordered)):
            return math.inf
        step = float(ordered[first] - ordered[first - 1])
        return abs(phi - (first - 1 + (estimate - float(ordered[first - 1])) / step) / last)
    return max(first / last - phi, phi - (after - 1) / last, 0.0)
