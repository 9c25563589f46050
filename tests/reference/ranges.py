"""Statistics and functions of a range, one number at a time: Prometheus 3's rules, without compensation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Approximate:
    """A value, exact but for rounding errors relative to `scale`."""

    value: float
    scale: float


def range_function(
    name: str, window: Sequence[tuple[int, float]], until_ms: int, range_ms: int, phi: float
) -> Approximate | None:
    values = [v for _, v in window]
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    pairs = list(zip(values, values[1:], strict=False))
    match name:
        case "rate" | "increase" | "delta":
            return _extrapolated(name, window, until_ms, range_ms, largest)
        case "irate" | "idelta":
            return _last_two(name, window)
        case "changes":
            return counted(sum(b != a and not (math.isnan(a) and math.isnan(b)) for a, b in pairs))
        case "resets":
            return counted(sum(b < a for a, b in pairs))
        case "count_over_time":
            return counted(len(values))
        case "present_over_time":
            return counted(1)
        case "last_over_time":
            return Approximate(values[-1], abs(values[-1]))
        case "sum_over_time":
            return total([Approximate(v, abs(v)) for v in values])
        case "avg_over_time":
            return mean([Approximate(v, abs(v)) for v in values])
        case "min_over_time":
            return Approximate(lowest(values), largest)
        case "max_over_time":
            return Approximate(-lowest([-v for v in values]), largest)
        case "quantile_over_time":
            return Approximate(quantile(phi, values), largest)
        case "stdvar_over_time":
            return Approximate(variance(values), largest**2)
        case "stddev_over_time":
            return Approximate(math.sqrt(variance(values)), largest)
    raise NotImplementedError(name)


def _extrapolated(
    name: str, window: Sequence[tuple[int, float]], until_ms: int, range_ms: int, largest: float
) -> Approximate | None:
    if len(window) < 2:
        return None
    (first_ms, first), (last_ms, last) = window[0], window[-1]
    rise = last - first
    if name != "delta":
        for (_, before), (_, after) in zip(window, window[1:], strict=False):
            if after < before:
                rise += before
    before_s, after_s = (first_ms - (until_ms - range_ms)) / 1000, (until_ms - last_ms) / 1000
    sampled_s = (last_ms - first_ms) / 1000
    spacing_s = sampled_s / (len(window) - 1)
    if before_s >= spacing_s * 1.1:
        before_s = spacing_s / 2
    if name != "delta" and rise > 0 and first >= 0:
        before_s = min(before_s, sampled_s * (first / rise))
    if after_s >= spacing_s * 1.1:
        after_s = spacing_s / 2
    factor = (sampled_s + before_s + after_s) / sampled_s
    if name == "rate":
        factor /= range_ms / 1000
    return Approximate(rise * factor, largest * factor * len(window))


def _last_two(name: str, window: Sequence[tuple[int, float]]) -> Approximate | None:
    if len(window) < 2:
        return None
    (before_ms, before), (last_ms, last) = window[-2:]
    rise = last if name == "irate" and last < before else last - before
    per_s = rise / ((last_ms - before_ms) / 1000) if name == "irate" else rise
    return Approximate(per_s, abs(per_s))


def counted(number: int) -> Approximate:
    return Approximate(float(number), 0.0)


def total(values: Sequence[Approximate]) -> Approximate:
    return Approximate(_sum([v.value for v in values]), math.fsum(v.scale for v in values if math.isfinite(v.scale)))


def mean(values: Sequence[Approximate]) -> Approximate:
    summed = total(values)
    return Approximate(summed.value / len(values), summed.scale / len(values))


def _sum(values: Sequence[float]) -> float:
    special = {v for v in values if math.isinf(v)}
    if any(map(math.isnan, values)) or len(special) == 2:
        return math.nan
    return special.pop() if special else math.fsum(values)


def lowest(values: Sequence[float]) -> float:
    return min((v for v in values if not math.isnan(v)), default=math.nan)


def variance(values: Sequence[float]) -> float:
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = [Fraction(v) for v in values]
    centre = sum(exact) / len(exact)
    return float(sum((v - centre) ** 2 for v in exact) / len(exact))


def quantile(phi: float, values: Sequence[float]) -> float:
    if not values or math.isnan(phi):
        return math.nan
    if phi < 0 or phi > 1:
        return -math.inf if phi < 0 else math.inf
    ordered = sorted(values, key=lambda v: (not math.isnan(v), 0.0 if math.isnan(v) else v))
    rank = phi * (len(ordered) - 1)
    lower = max(0, math.floor(rank))
    upper, weight = min(len(ordered) - 1, lower + 1), rank - math.floor(rank)
    return ordered[lower] * (1 - weight) + ordered[upper] * weight
