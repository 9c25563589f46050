"""Every function: one line in the registry of its family.

A rule gets the call, what to evaluate against, and the evaluator for its arguments. A new function is a rule in the
file of its family, a line in that file's mapping, and a test.
"""

from collections.abc import Mapping

from precompute.errors import BadExpression
from precompute.evaluate.context import Evaluate, Evaluation, Rule
from precompute.evaluate.expr import Call
from precompute.evaluate.functions import dates, histograms, info, labels, math, misc, over_time, sorting
from precompute.evaluate.values import Value

EXPERIMENTAL = frozenset((
    "double_exponential_smoothing", "end", "histogram_quantiles", "info", "mad_over_time", "max_of", "min_of", "range",
    "sort_by_label", "sort_by_label_desc", "start", "step", "ts_of_first_over_time", "ts_of_last_over_time",
    "ts_of_max_over_time", "ts_of_min_over_time",
))  # fmt: skip
"""Behind a flag in Prometheus (promql/parser/functions.go)."""


def _gated(rule: Rule) -> Rule:
    """The rule of a function that must be switched on."""

    def checked(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
        if not at.features.experimental_functions:
            raise BadExpression(f'parse error: function "{node.function}" is not enabled')
        return rule(node, at, evaluate)

    return checked


_ALL: Mapping[str, Rule] = {
    **math.RULES, **dates.RULES, **misc.RULES, **labels.RULES, **sorting.RULES, **histograms.RULES, **over_time.RULES,
    **info.RULES,
}  # fmt: skip

FUNCTIONS: Mapping[str, Rule] = {name: _gated(rule) if name in EXPERIMENTAL else rule for name, rule in _ALL.items()}

OF_ONE_SERIES = frozenset({*math.RULES, *dates.RULES, *over_time.RULES} - {"predict_linear", *EXPERIMENTAL})
"""Whose value at a time is made of one series' samples before that time, wherever the query stands: what panes keep."""
