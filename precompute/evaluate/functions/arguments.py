"""A function's arguments, evaluated. The parser has checked their types; these say so where it could not."""

from precompute.errors import ExecutionError
from precompute.evaluate.context import Evaluate, Evaluation
from precompute.evaluate.expr import Call, Expr
from precompute.evaluate.values import Scalar, Text, Vector
from precompute.samples import F64


def scalar(expr: Expr, at: Evaluation, evaluate: Evaluate) -> F64:
    """A scalar argument at each step, float64[s]."""
    value = evaluate(expr, at)
    if not isinstance(value, Scalar):
        raise ExecutionError(f"{expr} is no scalar")
    return value.values


def vector(expr: Expr, at: Evaluation, evaluate: Evaluate) -> Vector:
    """An instant vector argument."""
    value = evaluate(expr, at)
    if not isinstance(value, Vector):
        raise ExecutionError(f"{expr} is no instant vector")
    return value


def text(expr: Expr, at: Evaluation, evaluate: Evaluate) -> str:
    """A string argument."""
    value = evaluate(expr, at)
    if not isinstance(value, Text):
        raise ExecutionError(f"{expr} is no string")
    return value.value


def optional_scalar(node: Call, place: int, at: Evaluation, evaluate: Evaluate) -> F64 | None:
    """The scalar argument at `place`, None where the call has fewer."""
    return scalar(node.args[place], at, evaluate) if place < len(node.args) else None
