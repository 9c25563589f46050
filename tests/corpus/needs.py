"""What each selector of an expression needs to find, so that the expression has an answer."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from precompute.evaluate.expr import (
    COMPARISONS,
    SET_OPERATORS,
    Aggregate,
    Binary,
    Call,
    Expr,
    Negate,
    Number,
    Range,
    Selector,
    String,
    Subquery,
    children,
    walk,
)

Names = frozenset[str]

_COUNTED = frozenset(("rate", "increase", "irate", "resets"))
_SAME_VALUES = frozenset((
    "abs", "avg_over_time", "ceil", "clamp_max", "clamp_min", "floor", "histogram_quantile", "label_join",
    "label_replace", "last_over_time", "max_over_time", "min_over_time", "quantile_over_time", "rate", "irate", "round",
    "scalar", "sort", "sort_desc", "sum",
))  # fmt: skip
"""Functions whose results are about as large as what they are given."""

_BLIND = frozenset(("count", "count_values", "group", "stddev", "stdvar"))
"""Aggregations whose results say nothing about the size of the values."""


@dataclass(frozen=True)
class LabelSet:
    """A set of label names: these, or all but these."""

    names: Names = frozenset()
    but: bool = True

    def of(self, series: dict[str, str]) -> tuple[tuple[str, str], ...]:
        """A series' labels of the set, sorted."""
        return tuple(sorted((n, v) for n, v in series.items() if n != "__name__" and (n in self.names) != self.but))


@dataclass(frozen=True)
class Alone:
    """Series that agree in `key` must agree in `shown`: they stand on the side of a match that has one partner."""

    key: LabelSet
    shown: LabelSet | None = None


@dataclass(frozen=True)
class Need:
    """What stands around a selector.

    kind    gauge, counter, or time (seconds since the epoch, of which the age is asked)
    exact   its label names where the series it is matched with leave no choice
    near    numbers about which the values should lie
    absent  the expression asks whether nothing is there
    half    it takes away from what is there, so not all of it may be there
    ranked  equal values would leave open which of them are the largest
    """

    selector: Selector
    kind: str = "gauge"
    bucketed: bool = False
    exact: Names | None = None
    near: tuple[float, ...] = ()
    alone: tuple[Alone, ...] = ()
    absent: bool = False
    half: bool = False
    ranked: bool = False


def needs(expr: Expr) -> list[Need]:
    """The needs of all selectors, from left to right."""
    return list(_below(expr, Need(Selector(()))))


def _below(expr: Expr, around: Need) -> Iterator[Need]:
    match expr:
        case Selector():
            yield replace(around, selector=expr)
        case Call():
            yield from _call(expr, around)
        case Aggregate():
            yield from _aggregate(expr, around)
        case Binary():
            yield from _binary(expr, around)
        case _:
            for child in children(expr):
                yield from _below(child, around)


def _call(call: Call, around: Need) -> Iterator[Need]:
    name, near = call.function, around.near
    if name == "increase":
        near = tuple(n / (_range_ms(call.args[0]) / 1000) for n in near)
    elif name not in _SAME_VALUES:
        near = ()
    around = replace(
        around,
        near=near,
        kind="counter" if name in _COUNTED else around.kind,
        bucketed=around.bucketed or name == "histogram_quantile",
        absent=around.absent or name.startswith("absent"),
    )
    for argument in call.args:
        yield from _below(argument, around)


def _range_ms(expr: Expr) -> int:
    return expr.range_ms if isinstance(expr, (Range, Subquery)) else 1000


def _aggregate(aggregate: Aggregate, around: Need) -> Iterator[Need]:
    shown = LabelSet(frozenset(aggregate.labels), aggregate.without)
    alone = tuple(rule if rule.shown else Alone(rule.key, shown) for rule in around.alone)
    near = () if aggregate.op in _BLIND else around.near
    ranked = around.ranked or aggregate.op in ("topk", "bottomk")
    yield from _below(aggregate.expr, replace(around, alone=alone, near=near, exact=None, ranked=ranked))


def _binary(binary: Binary, around: Need) -> Iterator[Need]:
    left, right = _nears(binary, around.near)
    sides = [replace(around, near=left), replace(around, near=right)]
    for at, other in enumerate((binary.right, binary.left)):
        if isinstance(other, Call) and other.function == "time":
            ages = tuple(-n if at == 0 else n for n in around.near)
            sides[at] = replace(around, kind="time", near=ages)
    if binary.op == "unless":
        sides[1] = replace(sides[1], half=True)
    if not {Number, String} & {type(binary.left), type(binary.right)}:
        sides = [_matched(binary, at, side) for at, side in enumerate(sides)]
    yield from _below(binary.left, sides[0])
    yield from _below(binary.right, sides[1])


def _matched(binary: Binary, at: int, around: Need) -> Need:
    """With what matching asks of this side, 0 the left one."""
    matching = binary.matching
    other = shown_labels((binary.right, binary.left)[at])
    if other is not None and not matching.on:
        around = replace(around, exact=other | set(matching.labels))
    if binary.op not in SET_OPERATORS and matching.group != ("left", "right")[at]:
        rule = Alone(LabelSet(frozenset(matching.labels), not matching.on))
        around = replace(around, alone=(*around.alone, rule))
    return around


def _nears(binary: Binary, near: tuple[float, ...]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """About which numbers the sides should lie, where the result should about `near`."""
    constant = _constant(binary.right)
    if binary.op in COMPARISONS:
        if constant is not None:
            return (*near, constant), ()
        fixed = _constant(binary.left)
        return ((), (fixed,)) if fixed is not None else (near or (3.0,), near or (3.0,))
    if constant is not None:
        return tuple(n for value in near if (n := _undone(binary.op, value, constant)) is not None), ()
    fixed = _constant(binary.left)
    if fixed is not None:
        return (), tuple(n for value in near if (n := _undone_right(binary.op, value, fixed)) is not None)
    if not near or binary.op in SET_OPERATORS:
        return near, near
    return near, (0.0,) if binary.op in "+-" else (1.0,)


def _constant(expr: Expr) -> float | None:
    """The value of a number, or of arithmetic on numbers."""
    if isinstance(expr, Number):
        return expr.value
    if isinstance(expr, Negate) and (inner := _constant(expr.expr)) is not None:
        return -inner
    if isinstance(expr, Binary) and expr.op in "+-*/":
        left, right = _constant(expr.left), _constant(expr.right)
        if left is not None and right is not None and (right or expr.op != "/"):
            return {"+": left + right, "-": left - right, "*": left * right, "/": left / (right or 1.0)}[expr.op]
    return None


def _undone(op: str, value: float, right: float) -> float | None:
    """The x of `x op right = value`."""
    if op == "*":
        return value / right if right else None
    return {"+": value - right, "-": value + right, "/": value * right}.get(op)


def _undone_right(op: str, value: float, left: float) -> float | None:
    """The x of `left op x = value`."""
    if op in "*/":
        divided, by = (value, left) if op == "*" else (left, value)
        return divided / by if by else None
    return {"+": value - left, "-": left - value}.get(op)


def shown_labels(expr: Expr) -> Names | None:
    """The label names of a result where the expression alone tells them."""
    match expr:
        case Aggregate():
            return None if expr.without else frozenset(expr.labels)
        case Call(function="vector" | "time"):
            return frozenset()
        case Call():
            return next((names for arg in expr.args if (names := shown_labels(arg)) is not None), None)
        case Negate() | Subquery():
            return shown_labels(expr.expr)
        case Binary():
            return _shown_by_binary(expr)
    return None


def _shown_by_binary(binary: Binary) -> Names | None:
    left, right = shown_labels(binary.left), shown_labels(binary.right)
    if binary.op in SET_OPERATORS:
        return left
    if binary.matching.on and not binary.matching.group:
        return frozenset(binary.matching.labels)
    many = right if binary.matching.group == "right" else left
    return many if binary.matching.group else left if left is not None else right


def named_labels(expr: Expr) -> Names:
    """Every label name that an expression speaks of, but for the metric's and what it makes itself."""
    found: set[str] = set()
    made: set[str] = set()
    for node in walk(expr):
        match node:
            case Selector():
                found |= {m.name for m in node.matchers}
            case Aggregate():
                found |= set(node.labels)
            case Binary():
                found |= {*node.matching.labels, *node.matching.include}
            case Call(function="label_replace" | "label_join"):
                made |= {arg.value for arg in node.args[1:2] if isinstance(arg, String)}
                sources = node.args[3:4] if node.function == "label_replace" else node.args[3:]
                found |= {arg.value for arg in sources if isinstance(arg, String)}
    matched = {m.name for node in walk(expr) if isinstance(node, Selector) for m in node.matchers}
    return frozenset(found - (made - matched) - {"__name__", "le", ""})


def key_labels(expr: Expr) -> Names:
    """The label names by which series are matched."""
    return frozenset(name for node in walk(expr) if isinstance(node, Binary) for name in node.matching.labels)
