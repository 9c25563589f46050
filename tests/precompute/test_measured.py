"""Cardinalities are measured once, as numbers, until they are to be measured again."""

from dataclasses import dataclass, field

from precompute.evaluate.expr import Expr
from precompute.planner.measured import Measured
from query.promql.parse import parse


@dataclass
class Shape:
    series: int

    def groups(self, labels: tuple[str, ...], without: bool) -> int:
        return len(labels)


@dataclass
class Counting:
    """Ten series of each expression; those over `bad` are errors."""

    asked: list[str] = field(default_factory=list)

    def series(self, expr: Expr) -> int:
        self.asked.append(f"series {expr}")
        return 10

    def shape(self, expr: Expr, lookback_ms: int) -> Shape | str:
        self.asked.append(str(expr))
        return "an error" if str(expr) == "bad" else Shape(10)


A, B, BAD = parse("a"), parse("b"), parse("bad")


def test_each_expression_is_measured_once_and_again_for_groups_after_another_one() -> None:
    counting = Counting()
    measured = Measured(lambda: counting)
    for _ in range(3):
        for expr in (A, B):
            shape = measured.shape(expr, 1)
            assert shape is not None and not isinstance(shape, str)
            assert (shape.series, shape.groups(("x", "y"), False), shape.groups((), True)) == (10, 2, 0)
        assert (measured.shape(BAD, 1), measured.series(A)) == ("an error", 10)
    assert counting.asked == ["a", "b", "bad", "series a"]
    shape = measured.shape(A, 1)
    assert shape is not None and not isinstance(shape, str) and shape.groups(("z",), False) == 1
    assert counting.asked[4:] == ["a"]


def test_what_is_forgotten_or_too_much_is_measured_again() -> None:
    counting = Counting()
    measured = Measured(lambda: counting)
    for act in (lambda: measured.only(2), measured.forget, lambda: measured.only(0)):
        measured.shape(A, 1)
        measured.shape(B, 1)
        act()
    assert counting.asked == ["a", "b"] * 2
    measured.shape(A, 2)
    assert counting.asked[4:] == ["a"]
