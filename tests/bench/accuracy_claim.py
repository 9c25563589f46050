"""A claim of how good an estimate is, and a trial of it."""

from collections.abc import Callable
from dataclasses import dataclass

from precompute.samples import F64, Bool
from precompute.sketches.base import Bound


@dataclass(frozen=True)
class Trial:
    """One State asked several questions."""

    errors: F64
    """In the claim's unit, one per question."""
    held: Bool
    """Whether each answer is within the bound."""
    state_bytes: int


@dataclass(frozen=True)
class Claim:
    """An accumulator's bound on one statistic."""

    name: str
    """The accumulator."""
    statistic: str
    bound: Bound
    unit: str
    """What errors are measured in, for the page."""
    measure: Callable[[F64, int], Trial]
    """(values, parts) -> what a State of the values, built in parts and merged, answers."""
