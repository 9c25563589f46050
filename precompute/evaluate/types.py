"""The types of expressions, as PromQL has them."""

from precompute.evaluate.expr import Binary, Call, Expr, Negate, Number, Range, String, Subquery

_SCALAR_CALLS = frozenset(("scalar", "time", "pi", "step", "range", "start", "end", "max_of", "min_of"))


def type_of(expr: Expr) -> str:
    """An expression's type: scalar, string, vector or matrix."""
    if isinstance(expr, Number) or (isinstance(expr, Call) and expr.function in _SCALAR_CALLS):
        return "scalar"
    if isinstance(expr, Binary):
        return "scalar" if type_of(expr.left) == type_of(expr.right) == "scalar" else "vector"
    if isinstance(expr, Negate):
        return type_of(expr.expr)
    return "string" if isinstance(expr, String) else "matrix" if isinstance(expr, (Range, Subquery)) else "vector"
