"""docs/accuracy.md: measured errors of estimates beside their bounds. `make accuracy` writes it.

Each cell draws its data from a printed seed, builds the accumulator in parts, merges them, and compares with exact
answers over all values. Deterministic bounds must hold in every draw; the run fails where one does not.
"""

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from precompute.kernels.arithmetic import quantile_sorted
from precompute.samples import F64, I32
from precompute.sketches.base import one_pane
from precompute.sketches.columns import concat_columns, size_bytes
from precompute.sketches.exact import SUM, sum_of
from precompute.sketches.log_buckets import QUANTILE

PATH = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"
PHIS = (0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
PARTS, SEEDS = 7, 20

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


def quantile_errors(values: F64, parts: int) -> tuple[list[float], int]:
    """Error per φ as a share of the larger neighbouring order statistic, and the state's bytes."""
    states = [QUANTILE.build(one_pane(p, *_one_group(len(p)))) for p in np.array_split(values, parts)]
    whole = QUANTILE.merge(concat_columns(QUANTILE.columns, states), np.zeros(parts, np.int64), 1)
    ordered = np.sort(values)
    errors = []
    for phi in PHIS:
        estimated = float(QUANTILE.estimate(whole, "quantile", phi)[0])
        exact = quantile_sorted(phi, ordered, len(ordered))
        lower = math.floor(phi * (len(ordered) - 1))
        size = max(abs(ordered[lower]), abs(ordered[min(lower + 1, len(ordered) - 1)]))
        errors.append(abs(estimated - exact) / size if size else abs(estimated - exact))
    return errors, size_bytes(whole)


def sum_error(values: F64, parts: int) -> float:
    """Error of the merged sum as a share of Σ|x|, against an exactly rounded one."""
    states = [SUM.build(one_pane(p, *_one_group(len(p)))) for p in np.array_split(values, parts)]
    whole = SUM.merge(concat_columns(SUM.columns, states), np.zeros(parts, np.int64), 1)
    return abs(float(sum_of(whole)[0]) - math.fsum(values)) / math.fsum(np.abs(values))


def _one_group(n: int) -> tuple[I32, I32, int]:
    return np.zeros(n, np.int32), np.zeros(n, np.int32), 1


def table(sizes: list[int]) -> str:
    """The page; raises AssertionError where a bound does not hold."""
    rows = []
    for name, draw in DISTRIBUTIONS.items():
        for n in sizes:
            drawn = [draw(np.random.default_rng((seed, n)), n) for seed in range(SEEDS)]
            measured = [quantile_errors(values, PARTS) for values in drawn]
            errors = np.array([e for es, _ in measured for e in es])
            sums = max(sum_error(values, PARTS) for values in drawn)
            assert errors.max() <= QUANTILE.alpha, f"{name}, n = {n}: {errors.max()} is above {QUANTILE.alpha}"
            assert sums <= 1e-12, f"{name}, n = {n}: the sum is off by {sums} of Σ|x|"
            cells = (np.median(errors), np.quantile(errors, 0.99), errors.max())
            held = np.median([size for _, size in measured])
            shares = " | ".join(f"{cell:.3%}" for cell in cells)
            rows.append(f"| {name} | {n:,} | {shares} | {held:,.0f} | {sums:.1e} |")
    return "\n".join(rows)


def page(sizes: list[int]) -> str:
    return f"""# Accuracy

Written by `make accuracy` (`tests/bench/accuracy.py`); not edited by hand. Every state is built in {PARTS} parts
that are merged; {SEEDS} seeds a row; φ of {", ".join(map(str, PHIS))}.

- `quantile`: log buckets; bound α = {QUANTILE.alpha:.0%} of the larger magnitude of the two neighbouring order
  statistics, always. Few values are kept as they are, and are exact.
- `sum`: compensated; within 1e-12 of Σ|x|, always. `count`, `min`, `max` are exact, `avg` is sum over count, `stddev`
  from (n, mean, M2).

| data | values | median error | p99 | largest | bytes | sum's largest error, of Σ\\|x\\| |
| --- | --: | --: | --: | --: | --: | --: |
{table(sizes)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=100_000, help="values in the largest draw")
    largest = parser.parse_args().largest
    PATH.write_text(page([n for n in (10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000) if n <= largest]), "utf-8")


if __name__ == "__main__":
    main()
