"""Which functions may stand in an expression that panes keep."""

import pytest

from precompute.normal import why_not_kept
from query.promql.parse import parse


@pytest.mark.parametrize(
    "text",
    [
        "abs(x) > 0", "clamp(deriv(x[5m]), 0, 1)", "hour(x)", "round(rate(x[1m]), 0.1)", "x unless absent(y)",
        "x * scalar(y)", "x * hour()", "x > time()", "predict_linear(x[5m], 60)", "timestamp(x)",
        "histogram_quantile(0.9, x)", "absent_over_time(x[5m])", "x * vector(1)",
        'label_replace(x, "a", "b", "c", "d")',
    ],
)  # fmt: skip
def test_what_depends_on_samples_before_the_pane_end_and_that_end_alone_is_kept(text: str) -> None:
    assert why_not_kept(parse(text)) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sort(x)", "sort inside, which only orders"),
        ("x + sort_desc(y)", "sort_desc inside, which only orders"),
        ("info(x)", "info inside, which adds labels by rules of its own"),
        ("x * end()", "end inside, which depends on the query's own times"),
        ("x + fill (0) y", "fill modifiers inside"),
        ('label_replace(x, "a", "$1", "__name__", "(.*)")', "the metric name is read as a label"),
        ("x * on (__name__) y", "the metric name is read as a label"),
        ("x - x offset -5m", "a look into the future"),
        ("time() - x offset -5m", "a look into the future"),
        ("max_over_time((x offset -1m)[5m:1m])", "a look into the future"),
        ("x - x @ 0", "an @ that not all selectors share"),
        ("x @ end() - x @ start()", "an @ that not all selectors share"),
        ("max_over_time((x @ 0)[5m:1m])", "an @ inside a subquery"),
        ("time() - x @ end()", "an @ beside the evaluation's own time"),
    ],
)
def test_what_depends_on_more_is_not(text: str, reason: str) -> None:
    assert why_not_kept(parse(text)) == reason
