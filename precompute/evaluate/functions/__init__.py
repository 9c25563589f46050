"""Every function: one line in the registry of its family.

A rule gets the call, what to evaluate against, and the evaluator for its arguments. A new function is a rule in the
file of its family, a line in that file's mapping, and a test.
"""

from collections.abc import Mapping

from precompute.evaluate.context import Rule
from precompute.evaluate.functions import dates, histograms, info, labels, math, misc, over_time, sorting

EXPERIMENTAL = frozenset((
    "double_exponential_smoothing", "end", "histogram_quantiles", "info", "mad_over_time", "max_of", "min_of", "range",
    "sort_by_label", "sort_by_label_desc", "start", "step", "ts_of_first_over_time", "ts_of_last_over_time",
    "ts_of_max_over_time", "ts_of_min_over_time",
))  # fmt: skip
"""Behind a flag in Prometheus (promql/parser/functions.go)."""


FUNCTIONS: Mapping[str, Rule] = {
    **math.RULES, **dates.RULES, **misc.RULES, **labels.RULES, **sorting.RULES, **histograms.RULES, **over_time.RULES,
    **info.RULES,
}  # fmt: skip

OF_ONE_SERIES = frozenset({*math.RULES, *dates.RULES, *over_time.RULES} - {"predict_linear", *EXPERIMENTAL})
"""Whose value at a time is made of one series' samples before that time, wherever the query stands."""

MADE_BY_SERIES = frozenset({*math.RULES, *dates.RULES, *over_time.RULES, "timestamp", "time", "pi"})
"""Whose value at a time is made of one series' samples and the time itself, or of no series."""
