"""Answers become the JSON that Prometheus would write."""

import json
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precompute.evaluate.values import Frame, Matrix, Scalar, Text, Value, Vector
from precompute.labels import Labels
from precompute.runs import SymbolTable
from query.answers import Answer
from query.api import encode

T_MS = 1_435_781_430_781
NAN, INF = float("nan"), float("inf")


def vector(rows: Sequence[tuple[dict[str, str], Sequence[float | None]]]) -> Vector:
    """Rows of labels and of values per step; None where absent."""
    names = tuple(sorted({name for labels, _ in rows for name in labels}))
    symbols = SymbolTable()
    codes = np.array([[symbols.intern(labels.get(name, "")) for name in names] for labels, _ in rows], np.int32)
    values = np.array([[7.0 if v is None else v for v in row] for _, row in rows])
    present = np.array([[v is not None for v in row] for _, row in rows])
    return Vector(
        Frame(names, codes.reshape(len(rows), len(names)), symbols), values, present, np.zeros(len(rows), np.int32)
    )


def written(
    value: Value, times: Sequence[int] = (T_MS,), kind: str = "instant", ordered: bool = True, **rest: Any
) -> Any:
    value = replace(value, ordered=ordered) if isinstance(value, Vector) else value
    made = Answer(value, np.array(times, np.int64), kind, ("head",), "exact", **rest)
    return json.loads(encode.answer(made))


def go_float(value: float) -> str:
    """What strconv.FormatFloat makes of a value by Prometheus' choice of format, told from Python's shortest digits."""
    if value != value:
        return "NaN"
    if value in (INF, -INF):
        return "+Inf" if value > 0 else "-Inf"
    digits = Decimal(repr(value))
    if value and not 1e-6 <= abs(value) < 1e21:
        mantissa, exponent = f"{digits:e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{'-' if int(exponent) < 0 else '+'}{abs(int(exponent)):02d}"
    text = f"{digits:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def value_texts(values: Sequence[float]) -> list[str]:
    answer = written(vector([({"n": str(k)}, [value]) for k, value in enumerate(values)]))
    return [row["value"][1] for row in answer["data"]["result"]]


def test_it_works() -> None:
    made = Answer(
        vector([({"__name__": "up", "job": "a"}, [1.0])]), np.array([T_MS], np.int64), "instant", ("head",), "exact"
    )
    assert encode.answer(made) == (
        b'{"status":"success","data":{"resultType":"vector","result":['
        b'{"metric":{"__name__":"up","job":"a"},"value":[1435781430.781,"1"]}]}}'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (1e-5, "0.00001"),
        (1.5e-6, "0.0000015"),
        (9.99e-7, "9.99e-07"),
        (1e16, "10000000000000000"),
        (1.25e17, "125000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (5e-324, "5e-324"),
        (NAN, "NaN"),
        (INF, "+Inf"),
        (-INF, "-Inf"),
        (123456.789, "123456.789"),
        (-3.0, "-3"),
        (2**53 + 2, "9007199254740994"),
        (9.999999999999999e20, "999999999999999900000"),
    ],
)
def test_values_are_written_as_go_does(value: float, text: str) -> None:
    assert value_texts([value]) == [text]
    assert go_float(value) == text


@given(
    st.lists(
        st.floats() | st.floats(-12, 24).map(lambda e: 10.0**e) | st.integers(-(2**63), 2**63).map(float), min_size=1
    )
)
def test_every_value_is_written_as_go_does(values: list[float]) -> None:
    assert value_texts(values) == [go_float(v) for v in values]


@pytest.mark.parametrize(
    ("t_ms", "text"), [(0, "0"), (1000, "1"), (1_001, "1.001"), (1_100, "1.100"), (-1, "-0.001"), (-5_020, "-5.020")]
)
def test_times_are_seconds_with_three_decimals_unless_whole(t_ms: int, text: str) -> None:
    made = Answer(vector([({}, [2.5])]), np.array([t_ms], np.int64), "instant", (), "exact")
    assert f'"value":[{text},"2.5"]'.encode() in encode.answer(made)


@pytest.mark.parametrize(
    ("t_ms", "value", "point"),
    [(1_100, 1e-7, '[1.1,"0.0000001"]'), (-5_020, 1e21, '[-5.02,"1000000000000000000000"]'), (2000, NAN, '[2,"NaN"]')],
)
def test_a_scalar_stands_at_a_time_of_any_length_and_has_no_exponent(t_ms: int, value: float, point: str) -> None:
    made = Answer(Scalar(np.array([value])), np.array([t_ms], np.int64), "instant", (), "exact")
    assert f'"result":{point}'.encode() in encode.answer(made)


def test_a_matrix_leaves_out_absent_steps_and_series_without_points() -> None:
    value = vector([({"a": "x"}, [1, None, 3]), ({"a": "y"}, [None, None, None]), ({"a": "z"}, [None, NAN, None])])
    data = written(value, (0, 1000, 2500), "range")["data"]
    assert data == {
        "resultType": "matrix",
        "result": [
            {"metric": {"a": "x"}, "values": [[0, "1"], [2.5, "3"]]},
            {"metric": {"a": "z"}, "values": [[1, "NaN"]]},
        ],
    }


def test_a_scalar_over_a_range_is_one_series_without_labels() -> None:
    data = written(Scalar(np.array([1.0, 2.0])), (0, 1000), "range")["data"]
    assert data == {"resultType": "matrix", "result": [{"metric": {}, "values": [[0, "1"], [1, "2"]]}]}


def test_a_string_is_written_with_its_time() -> None:
    assert written(Text('é"'))["data"] == {"resultType": "string", "result": [T_MS / 1000, 'é"']}


@pytest.mark.parametrize(("kind", "name"), [("instant", "vector"), ("range", "matrix")])
def test_nothing_is_an_empty_list(kind: str, name: str) -> None:
    empty = Vector(
        Frame((), np.zeros((0, 0), np.int32), SymbolTable()),
        np.zeros((0, 1)),
        np.zeros((0, 1), bool),
        np.zeros(0, np.int32),
    )
    assert written(empty, kind=kind)["data"] == {"resultType": name, "result": []}


LABELS = st.dictionaries(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=4),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=4),
    max_size=4,
)


@given(st.lists(LABELS, min_size=1, max_size=8, unique_by=lambda labels: tuple(sorted(labels.items()))))
def test_labels_of_any_text_come_through_in_prometheus_order(rows: list[dict[str, str]]) -> None:
    result = written(vector([(labels, [1.0]) for labels in rows]), ordered=False)["data"]["result"]
    keys: list[Labels] = [tuple(sorted(labels.items())) for labels in rows]
    assert [tuple(row["metric"].items()) for row in result] == sorted(keys)


def test_an_instant_vector_that_was_sorted_keeps_its_order_and_a_matrix_does_not() -> None:
    value = vector([({"a": "z"}, [1]), ({"a": "x"}, [2])])
    assert [row["metric"]["a"] for row in written(value)["data"]["result"]] == ["z", "x"]
    assert [row["metric"]["a"] for row in written(value, kind="range")["data"]["result"]] == ["x", "z"]


def test_a_range_vector_is_a_matrix_of_each_series_own_samples() -> None:
    frame = vector([({"a": "y"}, [1]), ({"a": "x"}, [1])]).frame
    value = Matrix(frame, np.array([0, 1, 3]), np.array([1500, 1000, 2000]), np.array([0.5, 1.0, NAN]))
    assert written(value)["data"] == {
        "resultType": "matrix",
        "result": [
            {"metric": {"a": "x"}, "values": [[1, "1"], [2, "NaN"]]},
            {"metric": {"a": "y"}, "values": [[1.5, "0.5"]]},
        ],
    }


def test_large_range_vectors_are_written_in_tiles_that_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "_TILE_POINTS", 3)
    frame = vector([({"n": str(k)}, [1]) for k in range(6)]).frame
    counts = [1, 5, 2, 0, 3, 1]
    starts = np.concatenate(([0], np.cumsum(counts)))
    value = Matrix(frame, starts, np.arange(12) * 1000, np.arange(12.0))
    result = written(value)["data"]["result"]
    assert [[float(v) for _, v in row["values"]] for row in result] == [
        list(range(a, b)) for a, b in pairwise(starts.tolist())
    ]


def test_a_limit_cuts_off_series_and_says_so() -> None:
    made = Answer(vector([({"a": "x"}, [1]), ({"a": "y"}, [2])]), np.array([0], np.int64), "instant", (), "exact")
    cut, whole = json.loads(encode.answer(made, 1)), json.loads(encode.answer(made, 2))
    assert (len(cut["data"]["result"]), cut["warnings"]) == (1, ["results truncated due to limit"])
    assert len(whole["data"]["result"]) == 2
    assert "warnings" not in whole


def test_warnings_and_infos_are_told_once() -> None:
    answer = written(Scalar(np.array([1.0])), warnings=("w", "w"), infos=("i",))
    assert (answer["warnings"], answer["infos"]) == (["w"], ["i"])


def test_large_answers_are_written_in_tiles_that_join(monkeypatch: pytest.MonkeyPatch) -> None:
    value = vector([({"a": f"{k:02}"}, [k, None if k % 3 else 2.5, k / 7]) for k in range(20)])
    whole = written(value, (0, 1, 2), "range")
    monkeypatch.setattr(encode, "_TILE_POINTS", 7)
    assert written(value, (0, 1, 2), "range") == whole
    assert len(whole["data"]["result"]) == 20


def test_an_error_has_prometheus_shape() -> None:
    assert json.loads(encode.failure("bad_data", 'é "x"')) == {
        "status": "error",
        "errorType": "bad_data",
        "error": 'é "x"',
    }
