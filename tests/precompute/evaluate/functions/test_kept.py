"""Which functions may stand in an expression that panes keep."""

import pytest

from precompute.aggregations import why_not_kept
from query.promql.parse import parse


@pytest.mark.parametrize("text", ["abs(x) > 0", "clamp(deriv(x[5m]), 0, 1)", "hour(x)", "round(rate(x[1m]), 0.1)"])
def test_what_looks_at_one_series_alone_is_kept(text: str) -> None:
    assert why_not_kept(parse(text)) == ""


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("absent(x)", "absent"), ("scalar(x)", "scalar"), ("x * hour()", "hour"), ("x > time()", "time"),
        ("predict_linear(x[5m], 60)", "predict_linear"), ("timestamp(x)", "timestamp"), ("sort(x)", "sort"),
        ("histogram_quantile(0.9, x)", "histogram_quantile"), ("absent_over_time(x[5m])", "absent_over_time"),
        ('label_replace(x, "a", "b", "c", "d")', "label_replace"), ("x * vector(1)", "vector"),
    ],
)  # fmt: skip
def test_what_looks_at_more_is_not(text: str, function: str) -> None:
    assert why_not_kept(parse(text)) == f"{function} inside, which does not look at one series alone"
