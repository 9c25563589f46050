"""From PromQL text to our expressions; this module and `tree` know promql-parser."""

import re
from datetime import timedelta
from typing import NamedTuple

import promql_parser as parser

from precompute.errors import BadExpression, ExecutionError, QueryError, Unsupported
from precompute.evaluate.expr import (
    COMPARISONS,
    SET_OPERATORS,
    Aggregate,
    Binary,
    Call,
    Expr,
    Matcher,
    Matching,
    Negate,
    Number,
    Range,
    Selector,
    String,
    Subquery,
)
from precompute.evaluate.functions.info import info_selector
from precompute.evaluate.types import type_of
from precompute.labels import METRIC_NAME
from precompute.matchers import Condition
from query.promql.missing import missing_syntax
from query.promql.prepare import LONGEST_S, Prepared, prepare
from query.promql.tokens import is_text, printable

MAX_DEPTH = 100
MAX_LENGTH = 1 << 16
SELECTS_ALL = "parse error: vector selector must contain at least one non-empty matcher"

_TYPES = {"scalar": "scalar", "string": "string", "vector": "instant vector", "matrix": "range vector"}
"""Prometheus' names of types in its messages."""
_QUOTED = re.compile("'([^']*)'")
_GROUPS = {"VectorMatchCardinality.ManyToOne": "left", "VectorMatchCardinality.OneToMany": "right"}


def parse(text: str, max_depth: int = MAX_DEPTH, max_length: int = MAX_LENGTH) -> Expr:
    """The expression that `text` says.

    Raises LimitExceeded for a text too deep or too long, BadExpression ("parse error: …") for what is no
    PromQL, Unsupported for right PromQL that our expressions cannot hold.
    """
    return parsed(text, max_depth, max_length).expr


class Parsed(NamedTuple):
    """An expression, and the parser's own tree of it with what its references stand for."""

    expr: Expr
    tree: parser.Expr
    prepared: Prepared


def parsed(text: str, max_depth: int = MAX_DEPTH, max_length: int = MAX_LENGTH) -> Parsed:
    """As `parse`, with the tree, which has parentheses and the order of labels too."""
    prepared = prepare(text, max_depth, max_length)
    try:
        tree = parser.parse(prepared.text)
        return Parsed(_Converter(prepared).convert(tree), tree, prepared)
    except QueryError:
        raise
    except (ValueError, OverflowError) as error:
        if feature := missing_syntax(prepared.text):
            raise Unsupported(feature) from None
        raise BadExpression(f"parse error: {_reworded(prepared.readable(str(error)))}") from None


def parse_selector(text: str) -> tuple[Matcher, ...]:
    """The matchers of a series selector, as `match[]` carries it; raises as `parse` does."""
    expr = parse(text)
    if not isinstance(expr, Selector) or expr.offset_ms or expr.at is not None:
        raise BadExpression("parse error: expected a series selector")
    return expr.matchers


class _Converter:
    """Walks one parsed tree; its depth is bounded by `prepare`."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared

    def convert(self, node: parser.Expr) -> Expr:
        match node:
            case parser.NumberLiteral():
                return Number(node.val)
            case parser.StringLiteral():
                return String(self._text(node.val))
            case parser.ParenExpr():
                return self.convert(node.expr)
            case parser.UnaryExpr():
                return Negate(self.convert(node.expr))
            case parser.VectorSelector():
                return self._selector(node)
            case parser.MatrixSelector():
                return Range(self._selector(node.vector_selector), range_ms(node.range))
            case parser.Call():
                return self._call(node)
            case parser.AggregateExpr():
                return self._aggregate(node)
            case parser.BinaryExpr():
                return self._binary(node)
            case parser.SubqueryExpr():
                return self._subquery(node)
        raise Unsupported(f"an expression of type {type(node).__name__}")

    def _text(self, reference: str) -> str:
        return self.prepared.string(reference)[1]

    def _names(self, names: list[str]) -> tuple[str, ...]:
        # their order means nothing, so equal expressions get equal ones
        return tuple(sorted({self._text(name) for name in names}))

    def _selector(self, node: parser.VectorSelector, labels_only: bool = False) -> Selector:
        """A selector; with `labels_only` its conditions may all hold for a label that is not there."""
        if node.matchers.or_matchers:
            raise BadExpression('parse error: unexpected "or" in label matching, expected "," or "}"')
        matchers = [self._matcher(m) for m in node.matchers.matchers]
        if node.name:
            if twice := [m.value for m in matchers if m.name == METRIC_NAME]:
                raise BadExpression(f'parse error: metric name must not be set twice: "{node.name}" or "{twice[0]}"')
            matchers.append(Matcher(METRIC_NAME, "=", node.name))
        # every condition is built: this is also where a wrong regular expression is found
        empty = [Condition(m).accepts("") for m in matchers]
        if all(empty) and not labels_only:
            raise BadExpression(SELECTS_ALL)
        return Selector(tuple(sorted(set(matchers))), offset_ms(node.offset), at_of(node.at, self.prepared))

    def _subquery(self, node: parser.SubqueryExpr) -> Subquery:
        assert node.range is not None, "the grammar asks for it"
        step_ms = None if node.step is None else range_ms(node.step)
        at = at_of(node.at, self.prepared)
        return Subquery(self.convert(node.expr), range_ms(node.range), step_ms, offset_ms(node.offset), at)

    def _matcher(self, node: parser.Matcher) -> Matcher:
        op, value = self.prepared.string(node.value)
        # without an operator the string was a quoted metric name
        return Matcher(self._text(node.name), op or "=", value)

    def _call(self, node: parser.Call) -> Call:
        # the second argument of info() is no selector of series, though it is written like one
        args = tuple(
            self._selector(arg, labels_only=True)
            if node.func.name == "info" and place and isinstance(arg, parser.VectorSelector)
            else self.convert(arg)
            for place, arg in enumerate(node.args)
        )
        # the parser lets a negative number pass where a logarithm needs a vector
        for place, arg in enumerate(args):
            kinds = node.func.arg_types
            wanted = str(kinds[min(place, len(kinds) - 1)]).rpartition(".")[2].lower()
            if type_of(arg) != wanted:
                raise BadExpression(
                    f"parse error: expected type {_TYPES[wanted]} in call to function "
                    f'"{node.func.name}", got {_TYPES[type_of(arg)]}'
                )
        made = Call(node.func.name, args)
        if made.function == "info":
            # with the selector that it reads in full, so that all that a query looks at can be seen
            return Call(made.function, (made.args[0], info_selector(made)))
        return made

    def _aggregate(self, node: parser.AggregateExpr) -> Aggregate:
        labels: tuple[str, ...] = ()
        without = False
        if node.modifier is not None:
            labels = self._names(node.modifier.labels)
            without = str(node.modifier.type).endswith("Without")
        if str(node.op) == "count_values" and isinstance(node.param, parser.StringLiteral):
            self._check_label(node.param)
        parameter = None if node.param is None else self.convert(node.param)
        return Aggregate(str(node.op), self.convert(node.expr), labels, without, parameter)

    def _check_label(self, name: parser.StringLiteral) -> None:
        """Prometheus lets any string pass here, and fails when it evaluates."""
        _, value = self.prepared.raw(name.val)
        if not is_text(value):
            raise ExecutionError(f'invalid label name "{printable(value)}"')

    def _binary(self, node: parser.BinaryExpr) -> Binary:
        op, left, right = str(node.op), self.convert(node.lhs), self.convert(node.rhs)
        modifier = node.modifier
        if modifier is None:
            return Binary(op, left, right)
        between_vectors = type_of(left) == type_of(right) == "vector"
        if (modifier.fill_values.lhs, modifier.fill_values.rhs) != (None, None):
            if not between_vectors:
                raise BadExpression("parse error: filling in missing series only allowed between instant vectors")
            if op in SET_OPERATORS:
                raise BadExpression("parse error: filling in missing series not allowed for set operators")
        matching = self._matching(modifier) if between_vectors else Matching()
        return Binary(op, left, right, modifier.return_bool and op in COMPARISONS, matching)

    def _matching(self, modifier: parser.BinModifier) -> Matching:
        on = modifier.matching is not None and str(modifier.matching.type).endswith("Include")
        labels = self._names(modifier.matching.labels) if modifier.matching is not None else ()
        include = self._names(modifier.group_labels or [])
        if on and (both := sorted(set(labels) & set(include))):
            raise BadExpression(f'parse error: label "{both[0]}" must not occur in ON and GROUP clause at once')
        fills = (modifier.fill_values.lhs, modifier.fill_values.rhs)
        filled = (None if value is None else Number(value) for value in fills)
        return Matching(on, labels, _GROUPS.get(str(modifier.card), ""), include, *filled)


def at_of(node: parser.AtModifier | None, prepared: Prepared) -> int | str | None:
    """A fixed time in ms, "start" or "end"; None without one."""
    if node is None:
        return None
    kind = str(node.type).rpartition(".")[2].lower()
    if kind in ("start", "end") or node.at is None:
        return kind
    return prepared.times_ms[round(node.at.timestamp())]


def range_ms(length: timedelta) -> int:
    """Raises BadExpression where it is none."""
    ms = length // timedelta(milliseconds=1)
    if ms <= 0:
        raise BadExpression("parse error: duration must be greater than 0")
    return _bounded(ms)


def offset_ms(offset: timedelta | None) -> int:
    """Back in time; raises BadExpression where it is too far."""
    if offset is None:
        return 0
    ms = abs(offset) // timedelta(milliseconds=1)
    return _bounded(ms if offset > timedelta(0) else -ms)


def _bounded(ms: int) -> int:
    if abs(ms) > LONGEST_S * 1000:
        raise BadExpression("parse error: duration out of range")
    return ms


def _reworded(message: str) -> str:
    """The parser's sentence with Prometheus' names of the types."""
    for kind, name in _TYPES.items():
        message = message.replace(f"type {kind} ", f"type {name} ").replace(f", got {kind}", f", got {name}")
    return _QUOTED.sub(r'"\1"', message)
