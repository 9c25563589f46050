"""Drawn expressions as stand between a selector and an aggregation operator, and a world that they are about.

Metrics `g` and `h` (gauges) and `c` (a counter) have the same label sets of `i`, `job` and `zone`; `n` tells a `node`
for each job, now and then two of them; `b` has buckets.
"""

from random import Random

from tests.reference import worlds

SPANS = ("30s", "1m", "75s", "5m")
FILTERS = (
    'job="a"', 'job!="a"', 'job=~"a|b"', 'job=""', 'zone=~"x|"', 'zone!="y"', 'i=~"[0-3]"', 'node!=""', 'node="n1"',
    'nosuch=~".*"', 'le!="1"', 'new="a"', 'new!="a"',
)  # fmt: skip
MATCHINGS = ("", "on (i)", "on (i, job)", "on (zone, i)", "ignoring (zone)", "ignoring (job, le)", "on (job)", "on ()")
MANY = ("on (job) group_{} (node)", "on (job) group_{} ()", "ignoring (i, zone, node) group_{} (node)")


def world(random: Random, start_ms: int) -> worlds.World:
    out = worlds.world(random, start_ms, 6)
    for job in ("a", "b", ""):
        for node in random.choice((("n1",), ("n1",), ("n2",), ("n1", "n2"), ())):
            out[worlds.label_set("n", job=job, node=node)] = _steady(random, start_ms, 1.0)
    for i in range(random.randint(1, 3)):
        job = random.choice("ab")
        for k, le in enumerate(("1", "2.5", "+Inf")):
            out[worlds.label_set("b", i=str(i), job=job, le=le)] = _steady(random, start_ms, 3.0 + 2 * k)
    return out


def _steady(random: Random, start_ms: int, rise: float) -> list[tuple[int, float | worlds.Stale]]:
    first, last = start_ms + random.choice((0, 300_000)), start_ms + worlds.LENGTH_MS - random.choice((0, 300_000))
    return [(t, rise * k) for k, t in enumerate(range(first, last, 15_000))]


class Drawing:
    """Draws expressions; half of them have one filter in all their selectors, as dashboards do."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._common: tuple[str, ...] = ()
        self._shifted = False

    def expression(self, depth: int = 3) -> str:
        r = self._random
        self._common = tuple(r.sample(FILTERS[:10], r.choice((0, 1, 1, 2))))
        self._shifted = r.random() < 0.2
        return self._vector(depth)

    def _vector(self, depth: int) -> str:
        r = self._random
        if depth <= 0:
            return self._selector(r.choice("gghhcn"))
        draw = r.choice((
            self._selected, self._windowed, self._windowed, self._mapped, self._with_scalar, self._joined, self._joined,
            self._joined_many, self._joined_many, self._set, self._set, self._relabelled, self._stepped, self._quantile,
            self._of_nothing,
        ))  # fmt: skip
        return draw(depth - 1)

    def _selector(self, metric: str, span: str = "") -> str:
        r = self._random
        chosen = [f for f in self._common if r.random() < 0.85]
        chosen += r.sample(FILTERS, r.choice((0, 0, 0, 1)))
        filters = "{" + ",".join(sorted(set(chosen))) + "}" if chosen else ""
        shift = r.choice((" offset 1m", " offset 90s", "", " @ end()")) if self._shifted else ""
        return f"{metric}{filters}{span}{shift}"

    def _selected(self, depth: int) -> str:
        return self._selector(self._random.choice("ghcn"))

    def _windowed(self, depth: int) -> str:
        r = self._random
        function = r.choice(("rate", "increase", "max_over_time", "avg_over_time", "last_over_time", "changes"))
        if r.random() < 0.1:
            return f"predict_linear({self._selector('g', '[5m]')}, 60)"
        return f"{function}({self._selector(r.choice('ghc'), f'[{r.choice(SPANS)}]')})"

    def _mapped(self, depth: int) -> str:
        inner = self._vector(depth)
        return self._random.choice((
            f"abs({inner})", f"-({inner})", f"clamp_min({inner}, 0)", f"timestamp({inner})", f"hour({inner})",
        ))  # fmt: skip

    def _with_scalar(self, depth: int) -> str:
        r = self._random
        scalar = r.choice(("2", "0", "time()", f"scalar({self._selector('n')})"))
        return f"(({self._vector(depth)}) {r.choice(('*', '-', '>', '<= bool', '!='))} {scalar})"

    def _joined(self, depth: int) -> str:
        r = self._random
        op = r.choice(("+", "-", "*", "/", ">", "== bool", "<"))
        return f"(({self._vector(depth)}) {op} {r.choice(MATCHINGS)} ({self._vector(depth)}))"

    def _joined_many(self, depth: int) -> str:
        r = self._random
        side = r.choice(("left", "right"))
        many, one = self._vector(depth), self._selector("n") if r.random() < 0.8 else self._vector(depth)
        matching = r.choice(MANY).format(side)
        left, right = (many, one) if side == "left" else (one, many)
        return f"(({left}) {r.choice(('*', '+', '> bool', '<'))} {matching} ({right}))"

    def _set(self, depth: int) -> str:
        r = self._random
        left, right = self._vector(depth), self._vector(depth)
        return f"(({left}) {r.choice(('and', 'or', 'unless'))} {r.choice(MATCHINGS)} ({right}))"

    def _relabelled(self, depth: int) -> str:
        inner, source = self._vector(depth), self._random.choice(("job", "zone", "node"))
        made = self._random.choice(("new", "job", "node"))
        return self._random.choice((
            f'label_replace({inner}, "{made}", "$1", "{source}", "(.+)")',
            f'label_join({inner}, "{made}", "-", "i", "{source}")',
        ))  # fmt: skip

    def _stepped(self, depth: int) -> str:
        r = self._random
        function = r.choice(("max_over_time", "avg_over_time", "count_over_time", "last_over_time"))
        shift = " offset 2m" if self._shifted else ""
        return f"{function}(({self._vector(depth)})[{r.choice(('2m', '5m'))}:{r.choice(('30s', '1m', ''))}]{shift})"

    def _quantile(self, depth: int) -> str:
        buckets = f"rate({self._selector('b', '[2m]')})"
        if depth > 0 and self._random.random() < 0.3:
            buckets = f"({buckets} * on (job) group_left (node) {self._selector('n')})"
        return f"histogram_quantile(0.{self._random.randint(1, 9)}, {buckets})"

    def _of_nothing(self, depth: int) -> str:
        gauge, span = self._selector("g"), self._selector("g", "[1m]")
        return self._random.choice((f"absent({gauge})", f"vector(scalar({gauge}))", f"absent_over_time({span})"))
