"""The upstream as the query side asks it: its labels are the same as those of the series that it sends here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson

from precompute.clock import Clock
from precompute.errors import Unsupported
from precompute.evaluate.expr import EQUAL, Expr, Matcher, Range, Selector
from query.answers import Forwarded
from query.errors import UpstreamDown
from query.promql.parse import parse, parse_selector
from query.tiers import relabelled
from query.tiers.external_labels import ExternalLabels
from query.tiers.recognition import LabelLookup
from query.tiers.upstream import Parameters, Upstream
from query.tiers.upstream_text import query_text

_ODD_BODY = (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, IndexError)

_LISTS: dict[str, Callable[[Any, ExternalLabels], Any]] = {
    "labels": relabelled.names, "series": relabelled.series, "query_exemplars": relabelled.exemplars,
}  # fmt: skip
"""Endpoints whose `data` has labels in it."""


@dataclass(frozen=True)
class _Asked:
    """One request for a list, and what it needs to be asked there."""

    path: str
    parameters: Parameters
    headers: Mapping[str, str]
    left_ms: Callable[[], int]
    external: ExternalLabels

    @property
    def label(self) -> str:
        """The label whose values are asked for; empty where others are."""
        return unquote(self.path[len("label/") : -len("/values")]) if self.path.startswith("label/") else ""

    def matchers(self) -> list[tuple[Matcher, ...]]:
        """What its selectors are there."""
        return [self.external.matchers(parse_selector(text)) for text in _all(self.parameters, "match[]")]


class LabelledUpstream:
    """Asks for whole queries and lists; any thread may call it."""

    def __init__(self, upstream: Upstream, lookup: LabelLookup, max_depth: int, clock: Clock) -> None:
        self._upstream, self._lookup = upstream, lookup
        self._max_depth, self._clock = max_depth, clock
        self.name, self.close = upstream.name, upstream.close

    def query(self, path: str, parameters: Mapping[str, str], headers: Mapping[str, str], timeout_ms: int) -> Forwarded:
        """Its answer to a whole query, "query" or "query_range"; the caller's slot is given back while we wait.

        Raises UpstreamDown, TimedOut, and Unsupported for a query that cannot be asked of one with external labels.
        """
        left_ms = self._countdown(timeout_ms)
        external = self._lookup.labels(headers, timeout_ms)
        if not external:
            return self._upstream.query(path, parameters, headers, left_ms())
        expr = self._parsed(parameters["query"], external)
        there = {**parameters, "query": query_text(external.expr(expr))}
        answer = self._upstream.query(path, there, headers, left_ms())
        if not isinstance(expr, Range) or answer.status != 200:
            return answer
        return self._changed(path, answer, lambda body: relabelled.matrix(body, external))

    def get(self, path: str, parameters: Parameters, headers: Mapping[str, str], timeout_ms: int) -> Forwarded:
        """Its answer to any other GET below /api/v1/; raises as `query` does."""
        left_ms = self._countdown(timeout_ms)
        lists_labels = path in _LISTS or path.startswith("label/")
        external = self._lookup.labels(headers, timeout_ms) if lists_labels else ExternalLabels({})
        if not external:
            return self._upstream.get(path, parameters, headers, left_ms())
        return self._labelled(_Asked(path, parameters, headers, left_ms, external))

    def _labelled(self, asked: _Asked) -> Forwarded:
        answer = self._upstream.get(asked.path, self._there(asked), asked.headers, asked.left_ms())
        if answer.status != 200:
            return answer
        external = asked.external
        if change := _LISTS.get(asked.path):
            return self._changed(asked.path, answer, lambda body: _list(body, lambda data: change(data, external)))
        value = external.of(asked.label)
        if not value or not self._lacking(asked):
            return answer
        return self._changed(asked.path, answer, lambda body: _list(body, lambda data: sorted({*data, value})))

    def _parsed(self, text: str, external: ExternalLabels) -> Expr:
        """What a text says. Raises Unsupported where it is not understood here: its answer would lack the labels."""
        try:
            return parse(text, self._max_depth)
        except Unsupported as missing:
            labels = ", ".join(external)
            raise Unsupported(f"{missing.feature}, asked of an upstream with external labels ({labels}),") from None

    def _there(self, asked: _Asked) -> Parameters:
        """A list's parameters, with selectors that select there what they select here."""
        changed: dict[str, list[str]] = {}
        if "match[]" in asked.parameters:
            changed["match[]"] = list(map(_selector, asked.matchers()))
        if "query" in asked.parameters:
            changed["query"] = [self._query_there(text, asked.external) for text in _all(asked.parameters, "query")]
        return {**asked.parameters, **changed}

    def _query_there(self, text: str, external: ExternalLabels) -> str:
        return query_text(external.expr(self._parsed(text, external)))

    def _lacking(self, asked: _Asked) -> bool:
        """Whether a series that is asked about lacks the label whose values are asked for."""
        without = Matcher(asked.label, EQUAL, "")
        selectors = [_selector((*m, without)) for m in asked.matchers() or [asked.external.matchers(())]]
        answer = self._upstream.get(
            "labels", {**asked.parameters, "match[]": selectors}, asked.headers, asked.left_ms()
        )  # fmt: skip
        return answer.status == 200 and b'"data":[]' not in answer.body

    def _countdown(self, timeout_ms: int) -> Callable[[], int]:
        """What is left of the time from now on."""
        end_s = self._clock.monotonic_s() + timeout_ms / 1000
        return lambda: max(1, int((end_s - self._clock.monotonic_s()) * 1000))

    def _changed(self, path: str, answer: Forwarded, change: Callable[[bytes], bytes]) -> Forwarded:
        try:
            return Forwarded(answer.status, answer.content_type, change(answer.body))
        except _ODD_BODY:
            raise UpstreamDown(f"the upstream {self.name} answered {path} with no Prometheus answer") from None


def _all(parameters: Parameters, name: str) -> list[str]:
    """Every value of a parameter."""
    values = parameters.get(name, ())
    return [values] if isinstance(values, str) else list(values)


def _selector(matchers: tuple[Matcher, ...]) -> str:
    return query_text(Selector(tuple(sorted(matchers))))


def _list(body: bytes, change: Callable[[Any], Any]) -> bytes:
    answer = orjson.loads(body)
    return orjson.dumps({**answer, "data": change(answer["data"])})
