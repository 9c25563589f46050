"""Strings that a label condition accepts and strings that it refuses."""

import re._parser as grammar
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice, product
from typing import Any

from precompute.evaluate.expr import EQUAL, MATCHES, MATCHES_NOT, NOT_EQUAL, Matcher, Selector
from precompute.matchers import Condition

_MOST = 8
"""Strings of one pattern."""

_METRICS = 3
"""Names of a selector without a fixed one."""

FREE = 8
"""Values of no meaning that a label may have."""

_FILLING = "x"
"""What stands for any character."""


def texts(matcher: Matcher) -> list[str]:
    """Some strings that a matcher's text names; those of a negative one are what it refuses."""
    if matcher.op in (EQUAL, NOT_EQUAL):
        return [matcher.value]
    made = islice(_strings(grammar.parse(matcher.value)), 4 * _MOST)
    named = _condition(Matcher(matcher.name, MATCHES, matcher.value))
    return list(dict.fromkeys(text for text in made if named.accepts(text)))[:_MOST]


def accepted(matchers: Iterable[Matcher], candidates: Iterable[str]) -> list[str]:
    """The candidates that all matchers accept, once each."""
    conditions = [_condition(matcher) for matcher in matchers]
    return [text for text in dict.fromkeys(candidates) if all(c.accepts(text) for c in conditions)]


_condition = cache(Condition)


def candidates(name: str, matchers: Iterable[Matcher]) -> list[str]:
    """Values that a label might have: what conditions ask for, then some of no meaning, then what they refuse."""
    asked: list[str] = []
    refused: list[str] = []
    for matcher in matchers:
        (refused if matcher.op in (NOT_EQUAL, MATCHES_NOT) else asked).extend(texts(matcher))
    free = [f"{name}-{k}" for k in range(FREE)]
    return [value for value in dict.fromkeys((*asked, *free, *refused)) if value]


def metrics(selector: Selector) -> list[str]:
    """The metric names that a selector may find."""
    matchers = [m for m in selector.matchers if m.name == "__name__"]
    named = accepted(matchers, (text for m in matchers for text in texts(m)))
    return named[:_METRICS] or ["corpus_metric"]


def _strings(parsed: Any) -> Iterator[str]:
    """Strings of a parsed pattern, few of each repetition; alternatives in the order written."""
    parts = [list(islice(_of(op, argument), _MOST)) for op, argument in parsed]
    yield from map("".join, product(*parts))


def _of(op: Any, argument: Any) -> Iterator[str]:
    match str(op):
        case "LITERAL":
            yield chr(argument)
        case "ANY" | "NOT_LITERAL":
            yield _FILLING
        case "IN":
            yield _member(argument)
        case "BRANCH":
            for branch in argument[1]:
                yield from _strings(branch)
        case "SUBPATTERN":
            yield from _strings(argument[-1])
        case "MAX_REPEAT" | "MIN_REPEAT":
            least, most, inner = argument
            for count in dict.fromkeys((max(least, min(1, most)), least)):
                yield from (text * count for text in _strings(inner))
        case "AT":
            yield ""


def _member(choices: Any) -> str:
    """A character of a class: the first one named, `x` for all that a negated one leaves."""
    op, argument = choices[0]
    match str(op):
        case "LITERAL":
            return chr(argument)
        case "RANGE":
            return chr(argument[0])
        case "CATEGORY":
            return "1" if "DIGIT" in str(argument) else _FILLING
    return _FILLING
