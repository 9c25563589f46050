"""Set operators: and, or, unless. Which rows a step keeps depends on the signatures that the other side has there."""

from dataclasses import replace

from precompute.evaluate.expr import Binary
from precompute.evaluate.matching import signatures
from precompute.evaluate.names import unique
from precompute.evaluate.values import Vector, joined
from precompute.kernels import joins as kernel


def combine(node: Binary, left: Vector, right: Vector) -> Vector:
    """The value of a set operator. Raises ExecutionError where rows of both sides have the same labels at a step."""
    mine, theirs, count = signatures(node.matching, left, right)
    if node.op == "or":
        met = kernel.there(mine, left.present, count)[theirs]
        rest = replace(right, present=right.present & ~met).seen()
        return unique(joined((left, rest), left.present.shape[1]))
    met = kernel.there(theirs, right.present, count)[mine]
    return replace(left, present=left.present & (met if node.op == "and" else ~met)).seen()
