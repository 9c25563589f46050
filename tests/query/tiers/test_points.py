"""Answers of the Prometheus API become columns, or are refused."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precompute.clock import ManualClock
from precompute.errors import LimitExceeded
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Scalar, Vector
from query.answers import Answer
from query.api import encode
from query.tiers.points import NoFloats, OddAnswer, Read, Wanted, read_answer
from tests.query.api.test_encode import vector

FIRST_MS, STEP_MS = 1_764_500_000_250, 1500
TIMES = np.arange(FIRST_MS, FIRST_MS + 5 * STEP_MS, STEP_MS, dtype=np.int64)
RANGED = Wanted(TIMES, STEP_MS, False, True)
ONE = Wanted(TIMES[:1], 1, False, False)

Rows = Sequence[tuple[dict[str, str], Sequence[float | None]]]


def budget(max_matrix_bytes: int = 1 << 30) -> Budget:
    return Budget(Limits(max_matrix_bytes=max_matrix_bytes), ManualClock(), 10_000)


def read(body: bytes | str, wanted: Wanted = RANGED) -> Read:
    return read_answer(body.encode() if isinstance(body, str) else body, wanted, budget())


def rows(value: Vector | Scalar) -> list[tuple[dict[str, str], list[float | None]]]:
    assert isinstance(value, Vector)
    return [
        (dict(value.frame.labels(row)), [v if p else None for v, p in zip(values, present, strict=True)])
        for row, (values, present) in enumerate(zip(value.values.tolist(), value.present.tolist(), strict=True))
    ]


def matrix(*series: tuple[Mapping[str, str], Sequence[Any]], **beside: Any) -> str:
    result = [{"metric": dict(labels), "values": list(points)} for labels, points in series]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}, **beside})


VALUES = st.one_of(st.none(), st.floats(allow_nan=False), st.floats(-1, 1), st.integers(-1000, 1000).map(float))
LABELS = st.dictionaries(
    st.sampled_from(["__name__", "a", "values", "value", "metric", "ü"]), st.text(min_size=1, max_size=6), max_size=3
)
ROWS = st.lists(
    st.tuples(LABELS, st.lists(VALUES, min_size=5, max_size=5)),
    min_size=1,
    max_size=4,
    unique_by=lambda row: tuple(sorted(row[0].items())),
)


def sorted_rows(some: Rows) -> list[tuple[list[tuple[str, str]], list[float | None]]]:
    return sorted((sorted(labels.items()), list(values)) for labels, values in some if set(values) != {None})


@given(ROWS)
def test_what_we_write_we_read_to_the_bit(made: Rows) -> None:
    body = encode.answer(Answer(vector(made), TIMES, "range", (), "exact"))
    assert sorted_rows(rows(read(body).value)) == sorted_rows(made)


@given(ROWS, st.integers(0, 4))
def test_of_one_time_too(made: Rows, step: int) -> None:
    one = [(labels, values[step : step + 1]) for labels, values in made]
    body = encode.answer(Answer(vector(one), TIMES[step : step + 1], "instant", (), "exact"))
    assert sorted_rows(rows(read(body, Wanted(TIMES[step : step + 1], 1, False, False)).value)) == sorted_rows(one)


@given(ROWS, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_blanks_and_the_order_of_keys_mean_nothing(made: Rows, indent: Any, backwards: bool) -> None:
    answer = json.loads(encode.answer(Answer(vector(made), TIMES, "range", (), "exact")))
    answer["data"]["result"] = [dict(reversed(one.items())) for one in answer["data"]["result"]]
    whole = dict(reversed(answer.items())) if backwards else answer
    text = json.dumps(whole, indent=indent, separators=(" ,\r\n", " : "), ensure_ascii=backwards)
    assert sorted_rows(rows(read(text).value)) == sorted_rows(made)


@settings(max_examples=300)
@given(st.data())
def test_a_garbled_answer_is_refused_or_read_as_json_reads_it(data: st.DataObject) -> None:
    made = data.draw(ROWS)
    body = bytearray(encode.answer(Answer(vector(made), TIMES, "range", (), "exact", ("careful",))))
    for _ in range(data.draw(st.integers(1, 3))):
        first = data.draw(st.integers(0, len(body) - 1))
        put = data.draw(st.sampled_from([b"", b"[", b"]", b"{", b'"', b",", b"\\", b"0", b"x", b"-", b"\xff", b"null"]))
        body[first : first + data.draw(st.integers(0, 2))] = put
        if not body:
            body += b" "
    try:
        found = read(bytes(body))
    except (OddAnswer, NoFloats):
        return
    plain = json.loads(bytes(body))["data"]["result"]
    assert len(rows(found.value)) == sum(1 for one in plain if one["values"])
    for (labels, values), one in zip(rows(found.value), (one for one in plain if one["values"]), strict=True):
        assert labels == {name: text for name, text in one["metric"].items() if text}
        points = {round(t * 1000): float(v) for t, v in one["values"]}
        assert {t: v for t, v in zip(TIMES.tolist(), values, strict=True) if v is not None} == points


@given(st.integers(0, 10_000))
def test_a_cut_off_answer_is_refused(length: int) -> None:
    body = matrix(({"a": "1"}, [[1764500000.25, "1"], [1764500001.75, "2"]]), warnings=["careful"])
    with pytest.raises(OddAnswer):
        read(body[: length % len(body)])


def test_special_values_and_exponents_are_read() -> None:
    texts = ["NaN", "+Inf", "-Inf", "1e-07", "1.5e+21"]
    points = [[t / 1000, text] for t, text in zip(TIMES.tolist(), texts, strict=True)]
    ((_, values),) = rows(read(matrix(({}, points))).value)
    assert values[0] is not None and math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf, 1e-7, 1.5e21]


def test_values_that_need_more_digits_than_the_kernel_has_are_exact_too() -> None:
    middle = "9007199254740993.0000000000000000001"
    points = [[t / 1000, middle] for t in TIMES.tolist()]
    found = read(matrix(*(({"a": str(k)}, points) for k in range(20))))
    assert {v for _, values in rows(found.value) for v in values} == {float(middle)}


def test_steps_that_were_not_asked_for_are_left_out() -> None:
    points = [[t / 1000, str(k)] for k, t in enumerate(TIMES.tolist())]
    some = Wanted(TIMES[[0, 3]], STEP_MS, False, True)
    body = matrix(({"a": "1"}, points[:4]), ({"a": "2"}, points[1:2]))
    assert rows(read(body, some).value) == [({"a": "1"}, [0.0, 3.0])]


def test_warnings_and_infos_come_along() -> None:
    found = read(matrix(warnings=["w (1:10)"], infos=["i (2)", "j"]))
    assert (found.warnings, found.infos, rows(found.value)) == (("w",), ("i (2)", "j"), [])


def test_a_scalar_is_read() -> None:
    body = '{"status":"success","data":{"resultType":"scalar","result":[1764500000.25,"NaN"]}}'
    one = read(body, Wanted(TIMES[:1], 1, True, False)).value
    assert isinstance(one, Scalar)
    assert np.isnan(one.values).tolist() == [True]
    ranged = read(matrix(({}, [[t / 1000, "2.5"] for t in TIMES.tolist()])), Wanted(TIMES, STEP_MS, True, True)).value
    assert isinstance(ranged, Scalar)
    assert ranged.values.tolist() == [2.5] * 5


@pytest.mark.parametrize("key", ["histogram", "histograms"])
def test_native_histograms_are_told(key: str) -> None:
    with pytest.raises(NoFloats):
        read(matrix(({}, [])).replace('"values"', f'"{key}": [], "values"'))


POINT = [1764500000.25, "1"]


@pytest.mark.parametrize(
    "body",
    [
        "", "null", "[]", "{}", '"values"', '{"status":"success"}', '{"status":"success","data":[]}',
        matrix().replace("success", "error"), matrix().replace("matrix", "vector"),
        matrix(({}, [POINT, POINT])), matrix(({"a": "1"}, [POINT]), ({"a": "1"}, [POINT])),
        matrix(({}, [[1764500000.251, "1"]])), matrix(({}, [[1764500007.75, "1"]])),
        matrix(({}, [[1764499998.75, "1"]])), matrix(({}, [[1764500000.2501, "1"]])),
        matrix(({}, [["1764500000.25", "1"]])), matrix(({}, [[1764500000.25, 1]])),
        matrix(({}, [POINT])).replace("1764500000.25", "01764500000.25"), matrix(({}, [[1764500000.25, "1e999"]])),
        matrix(({}, [[1764500000.25, ""]])), matrix(({}, [[1764500000.25]])),
        matrix(({}, [POINT])).replace("[[", "[null,["), matrix(({}, [[*POINT, 1]])), matrix(({}, [[POINT]])),
        matrix(({}, [POINT])).replace('"values": [[', '"values": [], "values": [['),
        matrix(({}, [POINT])).replace('"metric": {}', '"metric": []'),
        matrix(({}, [POINT])).replace('"metric": {}', '"metric": {"a": 1}'),
        matrix(({}, [POINT])).replace('"metric": {}, ', ""),
        matrix(({}, [POINT])).replace('[[1764500000.25, "1"]]', "0"),
        matrix(({}, [])).replace('"values": []', '"values": 0'),
        matrix(({}, [])).replace('"values": []', '"values": true'),
        matrix(({}, [])).replace('"values": []', '"valu\\u0065s": 0, "metric": {"values": [[]]}'),
        matrix(warnings=[1]), matrix(infos="x"), matrix() + "x", "[" * 100_000, '{"a":' * 5000,
        json.dumps({"status": "success", "data": {"resultType": "matrix", "result": {"metric": {}, "values": []}}}),
    ],
)  # fmt: skip
def test_what_is_no_answer_to_the_question_is_refused(body: str) -> None:
    with pytest.raises(OddAnswer):
        read(body)


@pytest.mark.parametrize("result", ['[1764500000.25,"x"]', "[]", "null", "[[1764500000.25]]", '{"a":1}', '[0,"1"]'])
def test_no_scalar_is_refused(result: str) -> None:
    body = '{"status":"success","data":{"resultType":"scalar","result":' + result + "}}"
    with pytest.raises(OddAnswer):
        read(body, Wanted(TIMES[:1], 1, True, False))


def test_a_scalar_is_there_at_every_step() -> None:
    with pytest.raises(OddAnswer, match="not there at every step"):
        read(matrix(({}, [POINT])), Wanted(TIMES, STEP_MS, True, True))


def test_memory_is_asked_for_before_it_is_taken() -> None:
    many = matrix(*(({"a": str(k)}, []) for k in range(1000)))
    for body, room in ((many, 10_000), ("[" + "{}," * 10_000 + "{}]", 100_000)):
        with pytest.raises(LimitExceeded):
            read_answer(body.encode(), RANGED, budget(room))
    long = Wanted(np.arange(0, 10_000_000, 1000, dtype=np.int64), 1000, False, True)
    with pytest.raises(LimitExceeded, match="series × "):
        read_answer(many.encode(), long, budget(5_000_000))
