"""Values over time, near the numbers that an expression compares with where it does."""

import numpy as np

from precompute.samples import F64

_STEPS = 4
_FINE = 64
"""Values move by whole sixty-fourths, so that sums of a few are exact."""

_SIZES = (1.0, 7.0, 100.0, 4096.0, float(1 << 30))
_STEPS_OF_COUNTERS = (0.0, 1.0, 37.0, 1000.0)
_UNTIL_RESET = 20
"""Samples before a reset: a window with little before it would be known to differ (`differential.known`)."""

_FACTORS = (2.0, 0.5, 1.0, 1.25)
_AGES_S = (10.0, 3600.0, 259_200.0, 90.0)
_DESCRIBING = ("_info", "_metadata", "_labels", ":relabel")


def gauge_values(rng: np.random.Generator, near: tuple[float, ...], entity: int, count: int, metric: str) -> F64:
    """float64[count]: by turns equal to one of `near`, about it, below it and above it; any without one."""
    wobble = rng.integers(-_STEPS, _STEPS, count, endpoint=True) / _FINE
    if not near:
        return _any(rng, wobble, metric)
    middle = near[entity % len(near)]
    size = abs(middle) or 1.0
    away = (0.0, 0.0, -0.5, 0.5)[(entity // len(near)) % 4]
    still = (entity // len(near)) % 4 == 0
    return np.asarray(middle + size * (away + (0.0 if still else 1.0) * wobble))


def _any(rng: np.random.Generator, wobble: F64, metric: str) -> F64:
    if metric.endswith(_DESCRIBING):
        return np.ones(len(wobble))
    size, slope = rng.choice(_SIZES), rng.integers(-2, 3) / _FINE
    return np.asarray(size * (1 + wobble + slope * np.arange(len(wobble)) / 8))


def counter_values(rng: np.random.Generator, near: tuple[float, ...], entity: int, count: int, interval_s: int) -> F64:
    """float64[count]: grows by whole quarters of its mean step; one in eight is reset once."""
    wanted = abs(near[entity % len(near)]) * interval_s if near else 0.0
    step = wanted * rng.choice(_FACTORS) or rng.choice(_STEPS_OF_COUNTERS)
    values = np.cumsum(rng.integers(0, 9, count) / 4 * step) + 1e4 * step
    if rng.random() < 1 / 8:
        at = int(rng.integers(_UNTIL_RESET, count))
        values[at:] -= values[at - 1]
    return np.asarray(values)


def time_values(ages_s: tuple[float, ...], entity: int, count: int, at_s: float) -> F64:
    """float64[count]: moments that lie about so long before `at_s`."""
    age_s = ages_s[entity % len(ages_s)] * _FACTORS[entity % 4] if ages_s else _AGES_S[entity % 4]
    return np.full(count, np.floor(at_s - age_s))


def bucket_values(rng: np.random.Generator, bounds: int, count: int) -> F64:
    """float64[bounds, count]: cumulative in both."""
    counted = rng.integers(0, 9, (bounds, count))
    counted[:, 0] += 1000
    return np.asarray(np.cumsum(np.cumsum(counted, axis=1), axis=0), np.float64)
