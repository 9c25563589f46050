"""Filters taken out of an expression, so that what is kept without them serves every filter.

To lift a matcher m on a label L from an expression E is to leave it out of some of its selectors, which gives E' with

    (1)  E = the rows of E' whose labels fulfil m        (2)  where E is an error, E' is one

at every time and for all series, E' being no error there. So several matchers can be lifted one after another, and a
pane of E' that is no error holds all that is needed for E. By induction over E, in which "shows L" says that a row of
the result has the label L of the operand's row that it is made of:

- A selector of a fixed metric selects, without m, series of which m leaves exactly those that it selected. The
  metric's own labels (name, type, unit) are not lifted: functions take them off their results.
- What makes each row of its result from one row of its operand, or from rows equal in L, and shows L, gives from the
  rows that fulfil m the rows that fulfil m: functions of a range or of values, minus, operators with a scalar,
  `histogram_quantile` but for `le`, `label_replace` and `label_join` but for the label they set, subqueries (whose rows
  are those of the expression inside). Errors are two rows of one label set at one time: more rows, more errors.
- Arithmetic and comparisons make each row from a pair that agrees in the signature's labels. If L is one of them, both
  sides show it; else only that side does whose L the result takes: the "many" side, or for labels that `group_left`
  and `group_right` name, the other. A pair whose result fulfils m has m fulfilled on each side that shows L, and no
  other pair does; so m may be lifted from any of these sides. Errors are rows of equal signature, again.
- `and` keeps rows of its left side that meet one of the right; both show L if the signature has it, else only the left.
  `unless` likewise, where m must be lifted from the left: what meets nothing on the right has no row there to judge by.
- `or` adds to the left side's rows those of the right whose signature the left has not. If the signature has L and both
  sides are the rows that fulfil m, whether such a row is met is decided among such rows. If not, a row that does not
  fulfil m could hide one that does, so m stays.
- Scalars have no labels; `absent`, `info`, fill modifiers and aggregation operators are taken to show none.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from precompute.evaluate.expr import Aggregate, Binary, Call, Expr, Matcher, Selector, String, children, rebuilt
from precompute.evaluate.types import type_of
from precompute.evaluate.values import OF_THE_METRIC
from precompute.labels import METRIC_NAME

_SHOW_NO_LABEL = frozenset(("absent", "absent_over_time", "info"))
_NOTHING: frozenset[Matcher] = frozenset()


@dataclass(frozen=True)
class _Operand:
    """What the result has of an operand."""

    shows: Callable[[str], bool]
    """Whether its rows' label of this name is that of the result's rows."""
    needed: bool = False
    """Whether a matcher can be lifted only if it is from this operand."""


_HIDDEN = _Operand(lambda label: False)
_SEEN = _Operand(lambda label: True)


def liftable(expr: Expr) -> frozenset[Matcher]:
    """The matchers that can be lifted, all of them together."""
    return _Lifting().liftable(expr)


def lifted(expr: Expr, matchers: frozenset[Matcher]) -> Expr:
    """The expression without these matchers, which are some of those that can be lifted from it."""
    return _Lifting().without(expr, matchers)


class _Lifting:
    """Remembers what can be lifted from each sub-expression of one expression."""

    def __init__(self) -> None:
        self._known: dict[int, frozenset[Matcher]] = {}

    def liftable(self, expr: Expr) -> frozenset[Matcher]:
        if id(expr) not in self._known:
            self._known[id(expr)] = self._found(expr)
        return self._known[id(expr)]

    def without(self, expr: Expr, matchers: frozenset[Matcher]) -> Expr:
        gone = matchers & self.liftable(expr)
        if not gone:
            return expr
        if isinstance(expr, Selector):
            return replace(expr, matchers=tuple(m for m in expr.matchers if m not in gone))
        made = iter([self.without(child, _shown(gone, way)) for child, way in _operands(expr)])
        return rebuilt(expr, lambda _: next(made))

    def _found(self, expr: Expr) -> frozenset[Matcher]:
        if isinstance(expr, Selector):
            return frozenset(m for m in expr.matchers if m.name not in OF_THE_METRIC)
        ways = [(_shown(self.liftable(child), way), way) for child, way in _operands(expr)]
        found = _NOTHING.union(*(matchers for matchers, _ in ways))
        return found.intersection(*(matchers for matchers, way in ways if way.needed))


def _shown(matchers: frozenset[Matcher], way: _Operand) -> frozenset[Matcher]:
    return frozenset(m for m in matchers if way.shows(m.name))


def _operands(expr: Expr) -> Iterator[tuple[Expr, _Operand]]:
    """Each expression directly inside, in their order, and what the result has of it."""
    inside = list(children(expr))
    if isinstance(expr, Binary):
        return zip(inside, _sides(expr), strict=True)
    if isinstance(expr, Aggregate):
        return ((child, _HIDDEN) for child in inside)
    way = _argument(expr) if isinstance(expr, Call) else _SEEN
    return ((child, way if type_of(child) in ("vector", "matrix") else _HIDDEN) for child in inside)


def _argument(call: Call) -> _Operand:
    """What a function's result has of its only argument with labels."""
    if call.function in _SHOW_NO_LABEL:
        return _HIDDEN
    made = _labels_made(call)
    return _Operand(lambda label: label not in made)


def _labels_made(call: Call) -> tuple[str, ...]:
    """Labels that a function sets or takes away."""
    if call.function in ("label_replace", "label_join"):
        return _texts(call)[:1]
    if call.function in ("histogram_quantile", "histogram_fraction"):
        return ("le",)
    return ("le", *_texts(call)) if call.function == "histogram_quantiles" else ()


def _texts(call: Call) -> tuple[str, ...]:
    return tuple(arg.value for arg in call.args if isinstance(arg, String))


def _sides(node: Binary) -> tuple[_Operand, _Operand]:
    """What the result of an operator has of its left and its right side."""
    scalar = [type_of(side) == "scalar" for side in (node.left, node.right)]
    if any(scalar):
        return _HIDDEN if scalar[0] else _SEEN, _HIDDEN if scalar[1] else _SEEN
    matching = node.matching
    if matching.fills:
        return _HIDDEN, _HIDDEN

    def matched(label: str) -> bool:
        return (label in matching.labels) == matching.on and label != METRIC_NAME

    if node.op in ("and", "unless"):
        return _Operand(lambda label: True, needed=node.op == "unless"), _Operand(matched)
    if node.op == "or":
        return _Operand(matched, needed=True), _Operand(matched, needed=True)
    if not matching.group:
        return _Operand(matched), _Operand(matched)
    many = _Operand(lambda label: matched(label) or label not in matching.include)
    one = _Operand(lambda label: matched(label) or label in matching.include)
    return (many, one) if matching.group == "left" else (one, many)
