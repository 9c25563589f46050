"""Answers of different tiers at different steps, put together into one."""

from collections.abc import Sequence

import numpy as np

from precompute.evaluate.tiles import at_all_steps
from precompute.evaluate.values import Scalar, Text, Value, Vector
from precompute.samples import Bool


def join_steps(parts: Sequence[tuple[Bool, Value]], steps: int) -> Value:
    """One value at all steps from values at disjoint sets of them; each bool[steps] tells a part's steps."""
    if len(parts) == 1 and parts[0][0].all():
        return parts[0][1]
    if any(isinstance(value, Text) for _, value in parts):
        return parts[0][1]
    if isinstance(parts[0][1], Scalar):
        joined = np.full(steps, np.nan)
        for at, value in parts:
            assert isinstance(value, Scalar)
            joined[at] = value.values
        return Scalar(joined)
    return at_all_steps([(at, value) for at, value in parts if isinstance(value, Vector)], steps)
