"""Whether an evaluated matrix is what the reference says, step by step."""

import math

from precompute.evaluate.values import Scalar, Value, Vector
from tests.reference.promql import Labels
from tests.reference.promql import Value as Expected
from tests.reference.ranges import Approximate


def at_step(value: Value, step: int) -> float | dict[Labels, float]:
    """One step of a value, as the reference gives it. A label set that stands twice at a step is an error."""
    if isinstance(value, Scalar):
        return float(value.values[step])
    assert isinstance(value, Vector)
    rows = [row for row in range(len(value)) if value.present[row, step]]
    out = {value.frame.labels(row): float(value.values[row, step]) for row in rows}
    assert len(out) == len(rows), "a label set stands twice"
    return out


def differences(got: float | dict[Labels, float], expected: Expected, tolerance: float) -> list[str]:
    """What differs by more than `tolerance` times the scale."""
    if isinstance(expected, Approximate):
        assert isinstance(got, float)
        return [] if close(got, expected, tolerance) else [f"{got!r}, not {expected}"]
    assert isinstance(got, dict)
    surplus = [f"{labels} should not be there" for labels in got.keys() - expected.keys()]
    missing = [f"{labels} is missing" for labels in expected.keys() - got.keys()]
    wrong = [
        f"{labels}: {got[labels]!r}, not {expected[labels]}"
        for labels in got.keys() & expected.keys() if not close(got[labels], expected[labels], tolerance)
    ]  # fmt: skip
    return surplus + missing + wrong


def close(got: float, expected: Approximate, tolerance: float) -> bool:
    """Special values must be the same; finite ones near in proportion to the scale."""
    if not (math.isfinite(got) and math.isfinite(expected.value)):
        return got == expected.value or (math.isnan(got) and math.isnan(expected.value))
    if math.isnan(expected.scale):
        return True
    return abs(got - expected.value) <= tolerance * max(expected.scale, abs(expected.value))
