"""Expressions for an upstream whose own series lack the labels that it gives to what it sends.

A Prometheus with `external_labels: {cluster: eu}` puts `cluster="eu"` on each series that it sends and that has no
label `cluster` of its own (storage/remote, processExternalLabels); its own series stay without. So that an answer is
the same from there as from here, selectors there also take series without the label, and each value gets the label
as soon as it is read: below aggregations and joins, which may look at it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from precompute.errors import Unsupported
from precompute.evaluate.expr import (
    EQUAL,
    MATCHES,
    NOT_EQUAL,
    Aggregate,
    Call,
    Expr,
    Matcher,
    Range,
    Selector,
    String,
    rebuilt,
)  # fmt: skip
from precompute.labels import METRIC_NAME
from precompute.matchers import Condition

_KEEP_SERIES = frozenset(("topk", "bottomk", "limitk", "limit_ratio"))
"""Aggregation operators whose result has all labels of its operand."""

_ANY_SERIES = Matcher(METRIC_NAME, NOT_EQUAL, "")
"""Every series has a metric name. For selectors that would have no condition left, which PromQL does not allow."""


class ExternalLabels:
    """An upstream's external labels; falsy where it has none."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        # every series has a name of its own
        self._labels = {name: value for name, value in sorted(labels.items()) if value and name != METRIC_NAME}

    def __bool__(self) -> bool:
        return bool(self._labels)

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)

    def of(self, name: str) -> str:
        """The value of a label; empty where it is none of these."""
        return self._labels.get(name, "")

    def added_to(self, labels: Mapping[str, str]) -> dict[str, str]:
        """A series' labels as they are here."""
        return {**self._labels, **labels}

    def matchers(self, matchers: Iterable[Matcher]) -> tuple[Matcher, ...]:
        """Conditions that a series fulfils there if it fulfils these here. Raises Unsupported."""
        made = {other for matcher in matchers for other in self._matcher(matcher)}
        if all(Condition(matcher).accepts("") for matcher in made):
            made.add(_ANY_SERIES)
        return tuple(sorted(made))

    def expr(self, expr: Expr) -> Expr:
        """An expression whose value there is this one's here. Raises Unsupported.

        That of a range selector lacks the labels, as PromQL has no way to put them on.
        """
        if not self:
            return expr
        if isinstance(expr, Selector):
            return self._labelled(self._selector(expr))
        if isinstance(expr, Range):
            return replace(expr, selector=self._selector(expr.selector))
        if isinstance(expr, Call) and (special := _SPECIAL.get(expr.function)):
            return special(self, expr)
        if isinstance(expr, Call) and any(isinstance(arg, Range) for arg in expr.args):
            return self._labelled(rebuilt(expr, self.expr))
        if isinstance(expr, Aggregate) and self._drops_them(expr):
            return self._unlabelled(expr)
        return rebuilt(expr, self.expr)

    def _matcher(self, matcher: Matcher) -> tuple[Matcher, ...]:
        """The conditions in place of one."""
        external = self.of(matcher.name)
        condition = Condition(matcher)
        if not external or condition.accepts(external) == condition.accepts(""):
            return (matcher,)
        if not condition.accepts(external):
            return matcher, Matcher(matcher.name, NOT_EQUAL, "")
        if matcher.op in (EQUAL, MATCHES):
            pattern = re.escape(external) if matcher.op == EQUAL else f"(?:{matcher.value})"
            return (Matcher(matcher.name, MATCHES, f"{pattern}|"),)
        if not matcher.value:
            # has any value, which here each series has
            return ()
        raise Unsupported(f"{matcher} of a label that the upstream has as an external one")

    def _selector(self, selector: Selector) -> Selector:
        return replace(selector, matchers=self.matchers(selector.matchers))

    def _labelled(self, expr: Expr) -> Expr:
        """The label on each series that lacks it: `^$` matches where there is none."""
        for name, value in self._labels.items():
            expr = _label_replace(expr, name, value, name, "")
        return expr

    def _drops_them(self, node: Aggregate) -> bool:
        """Whether nothing looks at the labels between what is read and a result without them."""
        leaf = isinstance(node.expr, Selector) or _reads_range(node.expr)
        return leaf and not node.without and node.op not in _KEEP_SERIES and not set(node.labels) & set(self._labels)

    def _unlabelled(self, node: Aggregate) -> Expr:
        inner = self._selector(node.expr) if isinstance(node.expr, Selector) else rebuilt(node.expr, self.expr)
        parameter = None if node.parameter is None else self.expr(node.parameter)
        return replace(node, expr=inner, parameter=parameter)

    def _timestamp(self, node: Call) -> Expr:
        """timestamp() knows the sample's own time of a bare selector only."""
        if not isinstance(node.args[0], Selector):
            return rebuilt(node, self.expr)
        return self._labelled(replace(node, args=(self._selector(node.args[0]),)))

    def _absent(self, node: Call) -> Expr:
        """absent() takes its labels from the selector's only equality of each name; those that are no longer one."""
        argument = node.args[0]
        if not isinstance(argument, (Selector, Range)):
            return rebuilt(node, self.expr)
        selector = argument if isinstance(argument, Selector) else argument.selector
        there = self._selector(selector)
        argument = there if isinstance(argument, Selector) else replace(argument, selector=there)
        made = replace(node, args=(argument,))
        for name, value in self._labels.items():
            asked = [m for m in selector.matchers if m.name == name]
            if len(asked) == 1 and asked[0].op == EQUAL and asked[0].value == value:
                made = _label_replace(made, name, value, METRIC_NAME, ".*")
        return made

    def _info(self, node: Call) -> Expr:
        """info() is told which labels of which metrics to add; it adds none that the series already has."""
        about = node.args[1]
        assert isinstance(about, Selector), "the parser asks for it"
        if asked := [m.name for m in about.matchers if self.of(m.name)]:
            raise Unsupported(f"info() by {asked[0]}, which the upstream has as an external label,")
        return replace(node, args=(self.expr(node.args[0]), about))


_SPECIAL: dict[str, Callable[[ExternalLabels, Call], Expr]] = {
    "timestamp": ExternalLabels._timestamp,
    "absent": ExternalLabels._absent,
    "absent_over_time": ExternalLabels._absent,
    "info": ExternalLabels._info,
}
"""Functions that are not simply put around what is read."""


def _reads_range(expr: Expr) -> bool:
    return isinstance(expr, Call) and any(isinstance(arg, Range) for arg in expr.args) and expr.function not in _SPECIAL


def _label_replace(expr: Expr, name: str, value: str, source: str, pattern: str) -> Call:
    texts = (name, value.replace("$", "$$"), source, pattern)
    return Call("label_replace", (expr, *map(String, texts)))
