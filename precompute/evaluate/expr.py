"""PromQL expressions as frozen values: what the evaluator walks and an aggregation keeps.

`str()` of an expression is PromQL again, in one normal form: equal expressions print alike, so texts can be
hashed into ids. Times and ranges are integer milliseconds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

EQUAL, NOT_EQUAL, MATCHES, MATCHES_NOT = "=", "!=", "=~", "!~"

COMPARISONS = frozenset(("==", "!=", ">", "<", ">=", "<="))
SET_OPERATORS = frozenset(("and", "or", "unless"))


@dataclass(frozen=True, order=True)
class Matcher:
    """One label condition; `op` is =, !=, =~ or !~."""

    name: str
    op: str
    value: str

    def __str__(self) -> str:
        return f"{plain_label(self.name)}{self.op}{quoted(self.value)}"


@dataclass(frozen=True)
class Number:
    """Equal to what prints alike: 0 and -0 are two, since `1 / -0` is another value, and NaN is one."""

    value: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return number_text(self.value)


@dataclass(frozen=True)
class String:
    value: str

    def __str__(self) -> str:
        return quoted(self.value)


@dataclass(frozen=True)
class Selector:
    """An instant vector selector; the metric name is a matcher like any other."""

    matchers: tuple[Matcher, ...]
    """Sorted."""
    offset_ms: int = 0
    at: int | str | None = None
    """A fixed time in ms, "start" or "end"."""

    def metric(self) -> str | None:
        """The metric name where it is fixed."""
        names = [m.value for m in self.matchers if m.name == "__name__" and m.op == EQUAL]
        return names[0] if len(names) == 1 and names[0] else None

    def __str__(self) -> str:
        return self.body() + self.shift()

    def body(self) -> str:
        metric = self.metric()
        # beside a bare name, PromQL allows no other condition on it
        names = sum(m.name == "__name__" for m in self.matchers)
        bare = metric is not None and plain_metric(metric) and names == 1
        rest = [m for m in self.matchers if not (bare and m.name == "__name__" and m.op == EQUAL)]
        braces = "{" + ",".join(map(str, rest)) + "}" if rest or not bare else ""
        return (metric if bare and metric else "") + braces

    def shift(self) -> str:
        return _shift_text(self.at, self.offset_ms)


@dataclass(frozen=True)
class Range:
    """A range vector selector."""

    selector: Selector
    range_ms: int

    def __str__(self) -> str:
        return f"{self.selector.body()}[{duration_text(self.range_ms)}]{self.selector.shift()}"


@dataclass(frozen=True)
class Subquery:
    """A range vector made by evaluating an expression at multiples of a step."""

    expr: "Expr"
    range_ms: int
    step_ms: int | None = None
    """None: the evaluation interval."""
    offset_ms: int = 0
    at: int | str | None = None
    """As a selector's."""

    def __str__(self) -> str:
        step = "" if self.step_ms is None else duration_text(self.step_ms)
        return f"({self.expr})[{duration_text(self.range_ms)}:{step}]{_shift_text(self.at, self.offset_ms)}"


@dataclass(frozen=True)
class Call:
    function: str
    args: tuple["Expr", ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.args))})"


@dataclass(frozen=True)
class Aggregate:
    """An aggregation operator; `without` tells how `labels` are meant."""

    op: str
    expr: "Expr"
    labels: tuple[str, ...] = ()
    without: bool = False
    parameter: "Expr | None" = None

    def __str__(self) -> str:
        names = ", ".join(map(plain_label, self.labels))
        clause = f" without ({names})" if self.without else f" by ({names})" if self.labels else ""
        inner = f"{self.parameter}, {self.expr}" if self.parameter is not None else str(self.expr)
        return f"{self.op}{clause}({inner})"


@dataclass(frozen=True)
class Matching:
    """How a binary operator pairs the series of its sides."""

    on: bool = False
    labels: tuple[str, ...] = ()
    group: str = ""
    """"", "left" or "right"."""
    include: tuple[str, ...] = ()
    fill_left: Number | None = None
    fill_right: Number | None = None
    """The value that stands for a missing series of that side; None: what has no partner is left out."""

    @property
    def fills(self) -> bool:
        return self.fill_left is not None or self.fill_right is not None

    def __str__(self) -> str:
        text = ""
        if self.on or self.labels or self.group:
            text = f" {'on' if self.on else 'ignoring'} ({', '.join(map(plain_label, self.labels))})"
        if self.group:
            text += f" group_{self.group} ({', '.join(map(plain_label, self.include))})"
        for side, value in (("left", self.fill_left), ("right", self.fill_right)):
            text += f" fill_{side} ({value})" if value is not None else ""
        return text


@dataclass(frozen=True)
class Binary:
    op: str
    left: "Expr"
    right: "Expr"
    bool_: bool = False
    matching: Matching = field(default_factory=Matching)

    def __str__(self) -> str:
        word = " bool" if self.bool_ else ""
        left = f"({self.left})" if self.op == "^" and str(self.left).startswith("-") else str(self.left)
        return f"({left} {self.op}{word}{self.matching} {self.right})"


@dataclass(frozen=True)
class Negate:
    expr: "Expr"

    def __str__(self) -> str:
        return f"-({self.expr})"


Expr = Number | String | Selector | Range | Subquery | Call | Aggregate | Binary | Negate

_KINDS = (Number, String, Selector, Range, Subquery, Call, Aggregate, Binary, Negate)
"""The same, which isinstance is quicker about."""

_NAMES = {kind: tuple(part.name for part in fields(kind)) for kind in _KINDS}
"""The fields of each; reflection would cost a small query a tenth of its time."""


def children(expr: Expr) -> Iterator[Expr]:
    """The expressions directly inside `expr`."""
    for name in _NAMES[type(expr)]:
        value = getattr(expr, name)
        if isinstance(value, _KINDS):
            yield value
        elif isinstance(value, tuple):
            yield from (v for v in value if isinstance(v, _KINDS))


def walk(expr: Expr) -> Iterator[Expr]:
    """`expr` and all expressions inside it, outermost first."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def selectors(expr: Expr) -> list[Selector]:
    """Every selector of an expression, from left to right."""
    return [e for e in walk(expr) if isinstance(e, Selector)]


def rebuilt(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The same expression over changed ones: `change` is called for each that is directly inside it."""
    changed: dict[str, Any] = {}
    for part in fields(expr):
        value = getattr(expr, part.name)
        if isinstance(value, Expr):
            changed[part.name] = change(value)
        elif isinstance(value, tuple):
            changed[part.name] = tuple(change(v) if isinstance(v, Expr) else v for v in value)
    same: Expr = replace(expr, **changed)
    return same


def _shift_text(at: int | str | None, offset_ms: int) -> str:
    text = "" if at is None else f" @ {at}()" if isinstance(at, str) else f" @ {at / 1000:.3f}"
    sign = "-" if offset_ms < 0 else ""
    return text + (f" offset {sign}{duration_text(abs(offset_ms))}" if offset_ms else "")


def number_text(value: float) -> str:
    """A float as PromQL and Prometheus' JSON write it: shortest that reads back the same."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    whole = value == int(value) and abs(value) < 1e15 and (value or not str(value).startswith("-"))
    return str(int(value)) if whole else repr(value)


def duration_text(ms: int) -> str:
    """A duration as Prometheus prints it: `1h30m`, `15s`, `0s`."""
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, ms = divmod(ms, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def quoted(text: str) -> str:
    """A PromQL string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


_NOT_METRICS = frozenset((
    "on", "ignoring", "bool", "atan2", "group_left", "group_right", "by", "without", "and", "or", "unless",
    "offset", "start", "end", "inf", "nan", "anchored", "smoothed",
))  # fmt: skip
"""Words of the language, which a metric name must not look like; in any case of letters."""


def plain_metric(name: str) -> bool:
    """Whether a metric name can stand without quotes."""
    return name.isascii() and name.replace(":", "_").isidentifier() and name.lower() not in _NOT_METRICS


def plain_label(name: str) -> str:
    """A label name, in quotes where it must be."""
    plain = name.isascii() and name.isidentifier() and name.lower() not in _NOT_METRICS
    return name if plain else quoted(name)
