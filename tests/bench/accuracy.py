"""docs/accuracy.md: measured errors of estimates beside their bounds. `make accuracy` writes it.

Each cell draws its data from a fixed seed, builds the accumulator in parts, merges them, and compares with exact
answers over all values. Bounds that hold always must hold in every draw; others may fail in as many draws as their
confidence makes likely, and the run ends where more do.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from precompute.samples import Bool
from precompute.sketches.registry import FAMILIES, accumulator, fitted
from tests.bench.accuracy_claim import Claim, Trial
from tests.bench.accuracy_claims import CLAIMS, PHIS
from tests.bench.accuracy_data import DISTRIBUTIONS, drawn

PATH = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"
PARTS = 7
UNLIKELY = 1e-6
"""How likely a bound that holds at its confidence is called broken, per question."""


@dataclass(frozen=True)
class Cell:
    """All draws of one claim, data and size."""

    claim: Claim
    data: str
    n: int
    trials: tuple[Trial, ...]

    def row(self) -> str:
        errors = np.concatenate([trial.errors for trial in self.trials])
        shown = (np.median(errors), np.quantile(errors, 0.99), errors.max())
        exact = self.claim.bound.kind == "exact"
        text = " | ".join(f"{e:.1e}" if exact else f"{100 * e:.3g} %" for e in shown)
        held = np.median([trial.state_bytes for trial in self.trials])
        return f"| {self.data} | {self.n:,} | {len(self.trials)} | {text} | {held:,.0f} |"


def cells(claims: Sequence[Claim], sizes: Sequence[int], seeds: int) -> Iterator[Cell]:
    """Every claim on all data; large draws are fewer, a draw serves all claims."""
    for data in DISTRIBUTIONS:
        for n in sizes:
            draws = max(2, min(seeds, seeds * 100_000 // n))
            trials: list[list[Trial]] = [[] for _ in claims]
            for seed in range(draws):
                values = drawn(data, n, seed)
                for claim, found in zip(claims, trials, strict=True):
                    found.append(claim.measure(values, PARTS))
            yield from (Cell(claim, data, n, tuple(found)) for claim, found in zip(claims, trials, strict=True))


def check(claim: Claim, measured: Sequence[Cell]) -> str:
    """How often the answers were outside their bound. Raises AssertionError where that is too often."""
    held: Bool = np.array([trial.held for cell in measured if cell.data != "constant" for trial in cell.trials])
    allowed = most_misses(len(held), 1 - claim.bound.confidence)
    for question, misses in enumerate((~held).sum(axis=0)):
        broken = f"{claim.name}: {misses} of {len(held)} answers to question {question} are outside {claim.bound}"
        assert misses <= allowed, broken
    assert all(trial.held.all() for cell in measured if cell.data == "constant" for trial in cell.trials), claim.name
    return f"{(~held).sum()} of {held.size:,} answers were outside it"


def most_misses(draws: int, chance: float) -> int:
    """The most misses among independent draws that are not yet UNLIKELY, each missing with this chance."""
    tail = 1.0
    for misses in range(draws + 1):
        tail -= math.comb(draws, misses) * chance**misses * (1 - chance) ** (draws - misses)
        if tail < UNLIKELY:
            return misses
    return draws


def sections(claims: Sequence[Claim], sizes: Sequence[int], seeds: int) -> str:
    """A table per claim."""
    measured = list(cells(claims, sizes, seeds))
    return "\n".join(_section(claim, [cell for cell in measured if cell.claim is claim]) for claim in claims)


def _section(claim: Claim, measured: Sequence[Cell]) -> str:
    rows = "\n".join(cell.row() for cell in measured)
    return f"""
### `{claim.name}`: {claim.statistic}

Bound: {claim.bound}; {check(claim, measured)}. Errors {claim.unit}.

| data | values | draws | median error | p99 | largest | bytes |
| --- | --: | --: | --: | --: | --: | --: |
{rows}
"""


def registry_table() -> str:
    """What the registry says of each family."""
    head = (
        "| family | what | parameters (default, limits) | answers, within | exact up to | bytes at 100, 10⁴, 10⁶ values"
        " | for accuracy_sla 0.99 |\n| --- | --- | --- | --- | --: | --: | --- |\n"
    )
    return head + "\n".join(map(_family_row, FAMILIES))


def _family_row(name: str) -> str:
    family, kept = FAMILIES[name], accumulator(name)
    parameters = "; ".join(
        f"`{p.name}`: {p.meaning} ({p.text(p.default)}, {p.low:g} to {p.high:g})" for p in family.parameters
    )
    answers = ", ".join(f"{statistic}: {bound}" for statistic, bound in kept.answers.items())
    sizes = ", ".join(f"{family.row_bytes(kept, n):,.0f}" for n in (100, 10_000, 1_000_000))
    try:
        member = f"`{fitted(name, 0.99)}`"
    except ValueError:
        member = "no such member"
    few = "always" if all(bound.kind == "exact" for bound in kept.answers.values()) else family.few
    return f"| `{name}` | {family.meaning} | {parameters or '–'} | {answers or '–'} | {few} | {sizes} | {member} |"


def page(sizes: Sequence[int], seeds: int) -> str:
    return f"""# Accuracy

Written by `make accuracy` (`tests/bench/accuracy.py`); not edited by hand.

## What there is

One line per family of accumulators, from the registry (`precompute/sketches/registry.py`) that planner and answers
read too. A bound without a confidence holds always. `relative`: of the right value (of quantiles, of the larger of the
two neighbouring values); `rank`: the answer is the exact quantile of a φ so near; `upper rank`: that times 1 - φ;
`bucket`: in the right bucket; `additive`: of the row's total weight.

{registry_table()}

## What is measured

Every State is built in {PARTS} parts that are merged. Quantiles are asked for φ of
{", ".join(map(str, PHIS))}. Keys are the values, for `weight` and `topk` as whole numbers that weigh 1 each. Bounds
that hold always hold in every draw, or this page is not written; of the others no more answers may be outside than
their confidence allows (a binomial margin of {UNLIKELY:g} per question).
{sections(CLAIMS, sizes, seeds)}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=10_000_000, help="values in the largest draw")
    parser.add_argument("--seeds", type=int, default=20, help="draws of up to 100,000 values")
    args = parser.parse_args()
    sizes = [n for n in (10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000) if n <= args.largest]
    PATH.write_text(page(sizes, args.seeds), "utf-8")


if __name__ == "__main__":
    main()
