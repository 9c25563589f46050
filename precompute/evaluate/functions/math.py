"""Functions of one value at a time: rounding, powers and logarithms, bounds, angles.

numpy's functions follow IEEE 754 as Go's do: NaN outside of their domain, signed infinities at poles.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from precompute.evaluate.context import Evaluate, Evaluation, Rule
from precompute.evaluate.expr import Call
from precompute.evaluate.functions.arguments import optional_scalar, scalar, vector
from precompute.evaluate.names import drop_names
from precompute.evaluate.values import Scalar, Value
from precompute.samples import F64


def larger(a: F64, b: F64) -> F64:
    """Go's math.Max: +Inf beats NaN, NaN beats numbers, and 0 is more than -0."""
    best = np.where((a == 0) & (b == 0), np.where(np.signbit(a), b, a), np.maximum(a, b))
    return np.where((a == np.inf) | (b == np.inf), np.inf, best)


def smaller(a: F64, b: F64) -> F64:
    """Go's math.Min: -Inf beats NaN, NaN beats numbers, and -0 is less than 0."""
    return -larger(-a, -b)


def each(function: Callable[[F64], F64]) -> Rule:
    """The rule that applies `function`, float64[n, s] to the same shape, to every value of a vector."""

    def rule(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
        argument = vector(node.args[0], at, evaluate)
        with np.errstate(all="ignore"):
            return drop_names(argument.with_values(function(argument.values)), at)

    return rule


def _sign(x: F64) -> F64:
    """1 and -1; zeros of either sign and NaN as they are."""
    return np.where(x == 0, x, np.sign(x))


def _round(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    """To the nearest multiple, halves up; by way of the inverse, as Prometheus, for the sake of `0.1`."""
    argument = vector(node.args[0], at, evaluate)
    nearest = optional_scalar(node, 1, at, evaluate)
    with np.errstate(all="ignore"):
        inverse = 1 / (np.ones(len(at.times)) if nearest is None else nearest)
        return drop_names(argument.with_values(np.floor(argument.values * inverse + 0.5) / inverse), at)


def _clamp(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    """Nothing at steps where the upper bound is below the lower one."""
    argument = vector(node.args[0], at, evaluate)
    bounds = [scalar(arg, at, evaluate) for arg in node.args[1:]]
    lower = np.full(len(at.times), -np.inf) if node.function == "clamp_max" else bounds[0]
    upper = np.full(len(at.times), np.inf) if node.function == "clamp_min" else bounds[-1]
    clamped = larger(lower[None, :], smaller(upper[None, :], argument.values))
    return drop_names(replace(argument, values=clamped, present=argument.present & ~(upper < lower)).seen(), at)


def _of_two(function: Callable[[F64, F64], F64]) -> Rule:
    def rule(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
        a, b = (scalar(arg, at, evaluate) for arg in node.args)
        return Scalar(function(a, b))

    return rule


RULES: Mapping[str, Rule] = {
    "abs": each(np.abs),
    "ceil": each(np.ceil),
    "floor": each(np.floor),
    "exp": each(np.exp),
    "sqrt": each(np.sqrt),
    "ln": each(np.log),
    "log2": each(np.log2),
    "log10": each(np.log10),
    "sgn": each(_sign),
    "round": _round,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp,
    "max_of": _of_two(larger),
    "min_of": _of_two(smaller),
    "sin": each(np.sin),
    "cos": each(np.cos),
    "tan": each(np.tan),
    "asin": each(np.arcsin),
    "acos": each(np.arccos),
    "atan": each(np.arctan),
    "sinh": each(np.sinh),
    "cosh": each(np.cosh),
    "tanh": each(np.tanh),
    "asinh": each(np.arcsinh),
    "acosh": each(np.arccosh),
    "atanh": each(np.arctanh),
    "rad": each(lambda x: x * np.pi / 180),
    "deg": each(lambda x: x * 180 / np.pi),
}
