"""What of the language reaches users: kinds of results, notes, options. The language itself is shown by scripts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from precompute.errors import BadExpression, ExecutionError, QueryError, Unsupported
from query.answers import Answer, Forwarded
from query.api import encode
from query.promql.parse import parse
from query.tiers.head import looks
from query.tiers.summary import Steps
from tests.query.answering import answering, serving
from tests.query.served import NOW_MS, Served, served


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, evaluation_interval="30s") as node:
        fill(node)
        yield node


def fill(node: Served) -> None:
    for job, size in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        points = [(NOW_MS - 15_000 * k, size * (9 - k)) for k in range(8, -1, -1)]
        node.write({"__name__": "up", "job": job}, points)


def body(node: Served, text: str) -> Any:
    made = node.parts.engine.instant(text, NOW_MS)
    assert isinstance(made, Answer)
    return json.loads(encode.answer(made))


def jobs(node: Served, text: str) -> list[str]:
    return [row["metric"]["job"] for row in body(node, text)["data"]["result"]]


def test_a_range_vector_is_a_result(node: Served) -> None:
    data = body(node, 'up{job="a"}[40s]')["data"]
    assert data["resultType"] == "matrix"
    assert [value for _, value in data["result"][0]["values"]] == ["21", "24", "27"]


def test_a_subquery_is_a_result_and_its_step_is_the_evaluation_interval(node: Served) -> None:
    values = body(node, 'up{job="b"}[1m:]')["data"]["result"][0]["values"]
    assert values == [[NOW_MS // 1000 // 30 * 30 - 30, "5"], [NOW_MS // 1000 // 30 * 30, "7"]]


def test_a_string_is_a_result(node: Served) -> None:
    assert body(node, '"\\u00e9"')["data"] == {"resultType": "string", "result": [NOW_MS // 1000, "é"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sort(up)", ["b", "c", "a"]),
        ("sort_desc(up)", ["a", "c", "b"]),
        ("topk(2, up)", ["a", "c"]),
        ("bottomk(2, up)", ["b", "c"]),
        ("up", ["a", "b", "c"]),
    ],
)
def test_an_instant_query_keeps_the_order_that_it_asks_for(node: Served, text: str, expected: list[str]) -> None:
    assert jobs(node, text) == expected


def test_a_range_query_is_in_order_of_labels(node: Served) -> None:
    made = node.parts.engine.range("topk(2, up)", NOW_MS - 60_000, NOW_MS, 30_000)
    assert isinstance(made, Answer)
    rows = json.loads(encode.answer(made))["data"]["result"]
    assert [row["metric"]["job"] for row in rows] == ["a", "c"]


def test_warnings_and_infos_of_the_evaluation_are_told(node: Served) -> None:
    warned = body(node, "quantile(2, up)")
    assert warned["warnings"] == ["PromQL warning: quantile value should be between 0 and 1, got 2"]
    assert "might not be a counter" in body(node, "rate(up[1m])")["infos"][0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("limitk(1, up)", "limitk() is experimental and must be enabled"),
        ("up + fill (0) up", "binop fill modifiers are experimental and not enabled"),
        ('sort_by_label(up, "job")', 'function "sort_by_label" is not enabled'),
    ],
)
def test_what_is_experimental_is_off_until_it_is_switched_on(node: Served, tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BadExpression, match=r"^parse error: ") as refused:
        body(node, text)
    assert why in str(refused.value)
    with served(tmp_path / "on", experimental_functions=True) as other:
        fill(other)
        assert body(other, text)["data"]["result"]


def test_what_is_switched_off_here_is_asked_of_the_upstream(tmp_path: Path) -> None:
    with serving() as behind, served(tmp_path, prometheus_server=behind.url) as node:
        behind.reply = answering(200, b"theirs")
        made = node.parts.engine.instant("limitk(1, up)", NOW_MS)
        assert isinstance(made, Forwarded)
        assert made.body == b"theirs"
        assert node.parts.upstream is not None
        node.parts.upstream.close()


def test_names_go_at_the_end_where_that_is_switched_on(node: Served, tmp_path: Path) -> None:
    text = 'label_replace(-up, "was", "$1", "__name__", "(.*)")'
    assert "was" not in body(node, text)["data"]["result"][0]["metric"]
    with served(tmp_path / "on", delayed_name_removal=True) as other:
        fill(other)
        assert body(other, text)["data"]["result"][0]["metric"] == {"job": "a", "was": "up"}


@pytest.mark.parametrize("text", ['"a"', "up[1m]", "up[1m:]"])
def test_a_range_query_of_no_instant_vector_is_refused(node: Served, text: str) -> None:
    with pytest.raises(BadExpression, match=r"^invalid expression type "):
        node.parts.engine.range(text, NOW_MS - 60_000, NOW_MS, 30_000)


def test_a_subquery_reaches_as_far_back_as_its_inside_does() -> None:
    steps = Steps(np.array([600_000, 660_000], np.int64), 600_000, 660_000)
    (look,) = looks(parse("max_over_time(rate(up[1m] offset 1s)[2m:] offset 10s)"), steps, 300_000)
    assert look.after.tolist() == [600_000 - 191_000, 660_000 - 191_000]
    assert look.until.tolist() == [600_000 - 11_000, 660_000 - 11_000]
    (look,) = looks(parse("sum_over_time(up[2m:] @ start())"), steps, 300_000)
    assert look.after.tolist() == [180_000, 180_000]
    assert look.until.tolist() == [600_000, 600_000]


def test_a_function_of_ranges_makes_no_series_of_two_that_never_meet(node: Served) -> None:
    names = {"early": 20, "late": 4}
    for name, first in names.items():
        points = [(NOW_MS - 15_000 * (first - k), float(k)) for k in range(4)]
        node.write({"__name__": name, "job": "one"}, points)
    asked = ('rate({job="one"}[30s])', NOW_MS - 300_000, NOW_MS, 15_000)
    with pytest.raises(ExecutionError, match="same labelset"):
        node.parts.engine.range(*asked)


def test_a_clash_of_labels_is_an_execution_error(node: Served) -> None:
    with pytest.raises(QueryError, match="many-to-many matching not allowed"):
        body(node, "up + on () up")


@pytest.mark.parametrize("text", ["latency", '{__name__=~"lat.*"}', 'sum({job="a"})', "max_over_time(latency[1m:])"])
def test_what_may_select_a_native_histogram_is_refused_by_name(node: Served, text: str) -> None:
    node.node.intake.note_histograms({"latency"})
    with pytest.raises(QueryError, match="latency has native histogram samples"):
        body(node, text)


def test_what_cannot_select_a_native_histogram_is_answered(node: Served) -> None:
    node.node.intake.note_histograms({"latency"})
    assert jobs(node, '{__name__=~"u.*"}') == ["a", "b", "c"]


@pytest.mark.parametrize("text", ["rate(up[1m] smoothed)", "up[1m + 1m]", "start_timestamp(up)"])
def test_what_is_missing_is_named_here_and_asked_of_an_upstream(node: Served, tmp_path: Path, text: str) -> None:
    with pytest.raises(Unsupported):
        body(node, text)
    with serving() as behind, served(tmp_path / "proxy", prometheus_server=behind.url) as other:
        behind.reply = answering(200, b"theirs")
        assert isinstance(other.parts.engine.instant(text, NOW_MS), Forwarded)
        assert other.parts.upstream is not None
        other.parts.upstream.close()
