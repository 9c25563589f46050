"""Steps of different tiers put together, whose labels have ids of different tables."""

import numpy as np

from precompute.evaluate.values import Frame, Scalar, Vector
from precompute.labels import SymbolTable
from query.join import join_steps
from tests.reference.compare import at_step


def vector(rows: list[dict[str, str]], values: list[list[float]], symbols: SymbolTable) -> Vector:
    """NaN stands for absent."""
    names = tuple(sorted({name for row in rows for name in row}))
    codes = np.array([[symbols.intern(row.get(name, "")) for name in names] for row in rows], np.int32)
    matrix = np.array(values)
    frame = Frame(names, codes.reshape(len(rows), len(names)), symbols)
    return Vector(frame, matrix, ~np.isnan(matrix), np.zeros(len(rows), np.int32))


A, B, AX = (("g", "a"),), (("g", "b"),), (("g", "a"), ("x", "1"))
EVEN, ODD = np.array([True, False, True]), np.array([False, True, False])


def test_rows_of_equal_labels_become_one_and_the_others_stand_for_themselves() -> None:
    first = vector([{"g": "a"}, {"g": "b"}], [[1, 3], [10, np.nan]], SymbolTable())
    second = vector([{"g": "a", "x": "1"}, {"g": "a"}], [[7], [2]], SymbolTable())
    joined = join_steps([(EVEN, first), (ODD, second)], 3)
    assert [at_step(joined, step) for step in range(3)] == [{A: 1, B: 10}, {A: 2, AX: 7}, {A: 3}]


def test_a_tiers_own_table_learns_no_label_of_another() -> None:
    """The head's is added to by ingest alone, under its lock: two threads that add at once would mix up labels."""
    own, other = SymbolTable(), SymbolTable()
    parts = [(EVEN, vector([{"g": "a"}], [[1, 1]], own)), (ODD, vector([{"h": "b"}], [[2]], other))]
    sizes = len(own), len(other)
    assert at_step(join_steps(parts, 3), 1) == {(("h", "b"),): 2}
    assert at_step(join_steps(parts[::-1], 3), 0) == {A: 1}
    assert (len(own), len(other)) == sizes


def test_a_step_that_no_tier_answered_is_empty() -> None:
    joined = join_steps([(EVEN, vector([{"g": "a"}], [[1, 3]], SymbolTable()))], 3)
    assert [at_step(joined, step) for step in range(3)] == [{A: 1}, {}, {A: 3}]


def test_scalars_are_joined_step_by_step() -> None:
    joined = join_steps([(EVEN, Scalar(np.array([1.0, 3.0]))), (ODD, Scalar(np.array([2.0])))], 3)
    assert isinstance(joined, Scalar)
    assert joined.values.tolist() == [1.0, 2.0, 3.0]
