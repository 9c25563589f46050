"""Random queries over everything that Prometheus 2.42 has for floats.

An expression is *exact* when its values are sums, products and extremes of quarters of whole numbers, which both
systems compute without rounding. What jumps or amplifies (comparisons, rounding, %, division by, powers, logarithms)
stands over exact expressions only: elsewhere the last bit, in which two right systems differ, would decide.
"""

from collections.abc import Callable
from random import Random

EXACT_FUNCTIONS = ("abs", "ceil", "floor", "sgn")
DATES = (
    "minute", "hour", "month", "year", "day_of_month", "day_of_week", "day_of_year", "days_in_month",
)  # fmt: skip
NUMERIC = (
    "exp", "sqrt", "ln", "log2", "log10", "deg", "rad", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
)  # fmt: skip
EXACT_WINDOWS = (
    "sum_over_time", "min_over_time", "max_over_time", "count_over_time", "last_over_time", "present_over_time",
    "changes", "resets", "idelta",
)  # fmt: skip
WINDOWS = ("avg_over_time", "stddev_over_time", "stdvar_over_time", "delta", "irate", "deriv")
COUNTERS = ("rate", "increase")
EXACT_OPERATORS = ("sum", "min", "max", "count", "group")
OPERATORS = ("sum", "avg", "min", "max")
MATCHERS = (
    *("",) * 12, 'job="a"', 'job!="a"', 'job=~"a|b"', 'job!~"a.*"', 'job=""', 'job!=""', 'zone=~".*",job=~"b|"',
    'i=~"[0-2]"', 'nosuch=""', 'nosuch="1"', 'job="a",zone!="y"', 'zone=~"pod-.+"',
)  # fmt: skip
GROUPINGS = (
    "", "by (job)", "by (job, zone)", "by (nosuch)", "without (i)", "without (job, zone)", "by ()", "without ()",
)  # fmt: skip
SPANS = ("30s", "1m", "75s", "2m", "5m", "7m13s")
STEPS = ("15s", "30s", "1m", "")
COMPARISONS = ("==", "!=", ">", "<", ">=", "<=")
THRESHOLDS = (-1, 0, 0.25, 3, 7.5)

RENAMED = {"holt_winters": "double_exponential_smoothing"}
"""Functions of 2.42 that have another name in Prometheus 3."""


class Grammar:
    """Draws queries for a world whose times of interest are given."""

    def __init__(self, random: Random, moments_ms: tuple[int, ...]) -> None:
        self._random, self._moments_ms = random, moments_ms
        self._nested = 0

    def instant(self) -> str:
        """A query of any type."""
        r = self._random
        whole: tuple[Callable[[], str], ...] = (
            lambda: f"{r.choice(('sort', 'sort_desc'))}({self.vector(2, exact=True)})",
            lambda: f"{self._body()}[{r.choice(SPANS)}]{self._shift()}",
            lambda: self._subquery(1, exact=False),
            lambda: '"a text"',
            lambda: self.scalar(2, exact=False),
            lambda: self._top(2),
            lambda: self._deviation(3),
        )
        return r.choice(whole)() if r.random() < 0.15 else self.vector(3)

    def ranged(self) -> str:
        """A query that may be asked over a range: of a vector or a scalar."""
        r = self._random
        if r.random() < 0.1:
            return r.choice((lambda: self.scalar(2, exact=False), lambda: self._top(2), lambda: self._deviation(3)))()
        return self.vector(3)

    def scalar(self, depth: int, exact: bool) -> str:
        r = self._random
        if depth <= 0:
            return str(r.choice((0, 1, 2, -1.5, 0.25, 8)))
        made: list[Callable[[], str]] = [
            lambda: self.scalar(0, exact),
            lambda: f"scalar({self.vector(depth - 1, exact)})",
            lambda: f"({self.scalar(depth - 1, exact)} {r.choice('+-*')} {self.scalar(0, exact)})",
            lambda: f"-{self.scalar(depth - 1, exact)}",
            lambda: f"({self.scalar(0, True)} {r.choice(COMPARISONS)} bool {self.scalar(0, True)})",
        ]
        if not exact:
            made += [lambda: "time()", lambda: "pi()"]
        return r.choice(made)()

    def vector(self, depth: int, exact: bool = False) -> str:
        """An instant vector; `exact`: one of exact values."""
        if depth <= 0:
            return self._selector()
        exactly = (
            self._selector, self._windowed, self._aggregated, self._mapped, self._arithmetic, self._compared,
            self._set, self._matched, self._relabelled, self._absent, self._counted_values, self._negated, self._dated,
        )  # fmt: skip
        roughly = (
            self._rough_window, self._rough_window, self._numeric, self._divided, self._averaged, self._quantile,
            self._histogram, self._rough_aggregate, self._shifted, self._top_sum, self._time_of,
        )  # fmt: skip
        made = self._random.choice(exactly if exact or self._random.random() < 0.55 else roughly)
        return made(depth)

    # -- selectors and ranges

    def _body(self, metrics: tuple[str, ...] = ("g", "h", "c_total", "g", "h", "c_total", "b_bucket")) -> str:
        r = self._random
        if r.random() < 0.02:
            return '{__name__=~"[gh]"}'
        matchers = r.choice(MATCHERS)
        return r.choice(metrics) + ("{" + matchers + "}" if matchers or r.random() < 0.2 else "")

    def _shift(self) -> str:
        r = self._random
        if r.random() < 0.75:
            return ""
        moment = f"{r.choice(self._moments_ms) / 1000:.3f}"
        return r.choice((
            " offset 1m", " offset 7s", " offset -30s", " @ start()", " @ end()", " @ end() offset 1m", f" @ {moment}",
            f" offset 61s @ {moment}",
        ))  # fmt: skip

    def _selector(self, depth: int = 0) -> str:
        return self._body() + self._shift()

    def _range(self, depth: int, exact: bool) -> str:
        if depth > 1 and self._random.random() < 0.3:
            return self._subquery(depth - 1, exact)
        return f"{self._body()}[{self._random.choice(SPANS)}]{self._shift()}"

    def _subquery(self, depth: int, exact: bool) -> str:
        """Inside another one its offset keeps its steps away from the edges of its range."""
        r = self._random
        span, step = r.choice(("1m", "2m", "5m")), r.choice(("30s", "1m") if self._nested else STEPS)
        shift = " offset 7s" if self._nested else self._shift()
        self._nested += 1
        inner = self.vector(depth, exact)
        self._nested -= 1
        return f"({inner})[{span}:{step}]{shift}"

    def _windowed(self, depth: int) -> str:
        return f"{self._random.choice(EXACT_WINDOWS)}({self._range(depth, exact=True)})"

    def _rough_window(self, depth: int) -> str:
        r = self._random
        kind = r.randrange(5)
        if kind == 0:
            body = self._body(("c_total", "c_total", "g", "b_bucket"))
            return f"{r.choice(COUNTERS)}({body}[{r.choice(SPANS)}]{self._shift()})"
        if kind == 1:
            return f"quantile_over_time({r.choice((0, 0.37, 0.5, 0.99, 1, -1, 2))}, {self._range(depth, exact=False)})"
        if kind == 2:
            return f"predict_linear({self._range(depth, exact=True)}, {r.choice((0, 60, -30, 3600))})"
        if kind == 3:
            return f"holt_winters({self._range(depth, exact=True)}, {r.choice((0.1, 0.5))}, {r.choice((0.3, 0.9))})"
        return f"{r.choice(WINDOWS)}({self._range(depth, exact=True)})"

    # -- aggregation operators

    def _aggregated(self, depth: int) -> str:
        r = self._random
        return f"{r.choice(EXACT_OPERATORS)} {r.choice(GROUPINGS)} ({self.vector(depth - 1, exact=True)})"

    def _rough_aggregate(self, depth: int) -> str:
        r = self._random
        return f"{r.choice(OPERATORS)} {r.choice(GROUPINGS)} ({self.vector(depth - 1)})"

    def _averaged(self, depth: int) -> str:
        return f"avg {self._random.choice(GROUPINGS)} ({self.vector(depth - 1, exact=True)})"

    def _deviation(self, depth: int) -> str:
        """Nothing stands around it, so that its known difference shows as it is."""
        r = self._random
        return f"{r.choice(('stddev', 'stdvar'))} {r.choice(GROUPINGS)} ({self.vector(depth - 1, exact=True)})"

    def _quantile(self, depth: int) -> str:
        r = self._random
        phi = self.scalar(1, exact=True) if r.random() < 0.1 else r.choice((0, 0.25, 0.37, 0.99, 1, -1, 7))
        return f"quantile {r.choice(GROUPINGS)} ({phi}, {self.vector(depth - 1)})"

    def _counted_values(self, depth: int) -> str:
        """Of few values, so that labels stay few."""
        r = self._random
        label = r.choice(("v", "job", "i"))
        return f'count_values {r.choice(GROUPINGS)} ("{label}", {self.vector(depth - 1, exact=True)})'

    def _top(self, depth: int) -> str:
        """Which of equal values are taken is open; see outcomes.py."""
        r = self._random
        op, k = r.choice(("topk", "bottomk")), r.choice((0, 1, 2, 3, 100))
        return f"{op} {r.choice(GROUPINGS)} ({k}, {self.vector(depth - 1, exact=True)})"

    def _top_sum(self, depth: int) -> str:
        return f"{self._random.choice(('sum', 'count', 'max', 'min'))}({self._top(depth)})"

    # -- functions

    def _mapped(self, depth: int) -> str:
        r = self._random
        inner = self.vector(depth - 1, exact=True)
        low, high = r.choice(THRESHOLDS), r.choice((*THRESHOLDS, 20))
        return r.choice((
            f"{r.choice(EXACT_FUNCTIONS)}({inner})", f"{r.choice(EXACT_FUNCTIONS)}({inner})", f"round({inner})",
            f"round({inner}, {r.choice((0.5, 2, 5))})", f"clamp({inner}, {low}, {high})",
            f"clamp_min({inner}, {low})", f"clamp_max({inner}, {self.scalar(1, exact=True)})",
            f"vector({self.scalar(depth - 1, exact=True)})",
        ))  # fmt: skip

    def _numeric(self, depth: int) -> str:
        return f"{self._random.choice(NUMERIC)}({self.vector(depth - 1, exact=True)})"

    def _dated(self, depth: int) -> str:
        argument = self._random.choice(("", "", f"{self.vector(depth - 1, exact=True)} * 86400"))
        return f"{self._random.choice(DATES)}({argument})"

    def _time_of(self, depth: int) -> str:
        return f"timestamp({self.vector(self._random.randrange(2), exact=True)})"

    def _absent(self, depth: int) -> str:
        r = self._random
        if r.random() < 0.5:
            return f"absent_over_time({self._range(depth, exact=True)})"
        return f"absent({r.choice((self._selector(), self.vector(depth - 1, exact=True)))})"

    def _relabelled(self, depth: int) -> str:
        r = self._random
        inner = self.vector(depth - 1, exact=True)
        if r.random() < 0.4:
            dst, between = r.choice(("new", "i", "zone")), r.choice(("-", "", "/"))
            return f'label_join({inner}, "{dst}", "{between}", "job", "zone")'
        dst, src = r.choice(("new", "job", "zone", "i")), r.choice(("zone", "job", "i", "nosuch"))
        pattern, made = r.choice((
            ("(.*)", "$1"), ("(x|y).*", "was $1"), ("pod-(?P<n>[0-9]+)", "${n}-$$"), ("(.)(.*)", "$2$1"), ("", "none"),
            ("a", ""), ("(.*)", "${1}th"),
        ))  # fmt: skip
        return f'label_replace({inner}, "{dst}", "{made}", "{src}", "{pattern}")'

    def _histogram(self, depth: int) -> str:
        r = self._random
        phi = r.choice((0.37, 0.913, 0, 1, -1, 2))
        buckets = r.choice((
            f"b_bucket{self._shift()}", "sum by (le) (b_bucket)", f"rate(b_bucket[{r.choice(SPANS)}])",
            f"sum by (le, job) (rate(b_bucket[{r.choice(SPANS)}]))", self.vector(depth - 1, exact=True),
        ))  # fmt: skip
        return f"histogram_quantile({phi}, {buckets})"

    # -- operators

    def _negated(self, depth: int) -> str:
        return f"-({self.vector(depth - 1, exact=True)})"

    def _arithmetic(self, depth: int) -> str:
        r = self._random
        inner = f"({self.vector(depth - 1, exact=True)})"
        other = r.choice(("2", "0.5", "-3", "0", self.scalar(1, exact=True)))
        return f"{inner} {r.choice('+-*%')} {other}" if r.random() < 0.7 else f"{other} {r.choice('+-*')} {inner}"

    def _shifted(self, depth: int) -> str:
        r = self._random
        return f"({self.vector(depth - 1)}) {r.choice('+-*')} {r.choice((2, 0.5, -3, 100))}"

    def _divided(self, depth: int) -> str:
        r = self._random
        below = r.choice((str(r.choice((2, 3, 0, -7))), f"({self.vector(depth - 1, exact=True)})"))
        op, left = ("/", self.vector(depth - 1)) if r.random() < 0.7 else (
            r.choice(("^", "atan2")), self.vector(depth - 1, exact=True)
        )  # fmt: skip
        if op == "atan2":
            below = f"({self.vector(depth - 1, exact=True)})"
        return f"({left}) {op} {below}"

    def _compared(self, depth: int) -> str:
        r = self._random
        word = r.choice(("", " bool"))
        op = r.choice(COMPARISONS)
        inner = f"({self.vector(depth - 1, exact=True)})"
        other = r.choice((str(r.choice(THRESHOLDS)), self.scalar(1, exact=True)))
        return f"{inner} {op}{word} {other}" if r.random() < 0.8 else f"{other} {op}{word} {inner}"

    def _set(self, depth: int) -> str:
        r = self._random
        matching = r.choice(("", "", "on (job)", "ignoring (i)", "on ()", "on (i, zone)", "ignoring (zone)"))
        left, right = (f"({self.vector(depth - 1, exact=True)})" for _ in range(2))
        return f"{left} {r.choice(('and', 'or', 'unless'))} {matching} {right}"

    def _matched(self, depth: int) -> str:
        r = self._random
        op = r.choice(("+", "-", "*", "%", "> bool", "==", "<", "!= bool", ">="))
        if r.random() < 0.4:
            matching = r.choice(("", "", "ignoring (zone)", "on (job, zone, i)", "on (i)", "ignoring (i)", "on (job)"))
            return f"{self._selector()} {op} {matching} {self._selector()}"
        if r.random() < 0.5:
            grouping = r.choice(GROUPINGS)
            left, right = (f"{r.choice(('sum', 'count', 'max'))} {grouping} ({self._selector()})" for _ in range(2))
            return f"{left} {op} {right}"
        many, one = self._selector(), f"max {r.choice(('by (job)', 'by (job, zone)'))} ({self._selector()})"
        on = r.choice(("on (job)", "ignoring (i, zone)", "ignoring (i)", "on (job, zone)"))
        include = r.choice(("", "zone", "nosuch", "i"))
        include = "" if include and include in on else include
        if r.random() < 0.5:
            return f"{many} {op} {on} group_left ({include}) {one}"
        return f"{one} {op} {on} group_right ({include}) {many}"
