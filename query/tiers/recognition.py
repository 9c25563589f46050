"""What an upstream is: whether it means by PromQL what we mean, and which labels it gives to what it sends."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import orjson
import yaml

from precompute.clock import Clock
from precompute.errors import QueryError
from query.answers import Forwarded
from query.errors import UpstreamDown
from query.tiers.external_labels import ExternalLabels
from query.tiers.remembered import Remembered
from query.tiers.upstream import Upstream

Parts = Literal["auto", "always", "never"]

_VERSION = re.compile(r"v?([0-9]+)\.[0-9]")
_LIKE_OURS = "3"
"""Prometheus' major version whose semantics these are. VictoriaMetrics, with others, gives itself a 2."""
_GLOBAL = re.compile(r"^global:\n((?:[ ].*\n|\n)*)", re.MULTILINE)
"""The first section of a config as Prometheus prints it."""
_MOST_GLOBAL = 1 << 16


class Recognition:
    """Whether answers of the upstream can be parts of ours."""

    def __init__(self, upstream: Upstream, parts: Parts, clock: Clock) -> None:
        self._upstream, self._parts = upstream, parts
        self._same = Remembered(self._ask, clock)
        self.doubt = self._same.doubt

    def same_semantics(self, headers: Mapping[str, str], left_ms: int) -> bool:
        """By configuration, else by its buildinfo; false where it cannot be known. Waits at most `left_ms`."""
        if self._parts != "auto":
            return self._parts == "always"
        try:
            return self._same.fact(headers, left_ms)
        except QueryError:
            return False

    def _ask(self, headers: Mapping[str, str], timeout_ms: int) -> bool:
        answer = _answered(self._upstream.get("status/buildinfo", {}, headers, timeout_ms))
        found = _VERSION.match(str(_data(answer).get("version")))
        return found is not None and found[1] == _LIKE_OURS


class LabelLookup:
    """The external labels that the upstream has, as they are on the series that it sends here.

    configured: these, instead of asking it. pair: the names of the labels of cluster and replica, of which the
    second is taken off where both are.
    """

    def __init__(
        self, upstream: Upstream, configured: Mapping[str, str] | None, pair: tuple[str, str], clock: Clock
    ) -> None:
        self._upstream, self._pair = upstream, pair
        self._configured = None if configured is None else self._kept(configured)
        self._told = Remembered(self._ask, clock)

    def labels(self, headers: Mapping[str, str], left_ms: int) -> ExternalLabels:
        """Waits at most `left_ms`. Raises UpstreamDown or TimedOut where they cannot be known."""
        return self._told.fact(headers, left_ms) if self._configured is None else self._configured

    def _ask(self, headers: Mapping[str, str], timeout_ms: int) -> ExternalLabels:
        """Those in its configuration; none where it shows none."""
        answer = _answered(self._upstream.get("status/config", {}, headers, timeout_ms))
        section = _GLOBAL.search(str(_data(answer).get("yaml")) + "\n")
        if section is None or len(section[0]) > _MOST_GLOBAL:
            return ExternalLabels({})
        try:
            labels = yaml.safe_load(section[0])["global"]["external_labels"]
            return self._kept({str(name): str(value) for name, value in labels.items()})
        except (yaml.YAMLError, RecursionError, KeyError, TypeError, AttributeError):
            return ExternalLabels({})

    def _kept(self, labels: Mapping[str, str]) -> ExternalLabels:
        cluster, replica = self._pair
        taken_off = replica if cluster in labels else None
        return ExternalLabels({name: value for name, value in labels.items() if name != taken_off})


def _answered(answer: Forwarded) -> Forwarded:
    """Raises UpstreamDown for an answer of a server that has troubles."""
    if answer.status >= 500:
        raise UpstreamDown(f"the upstream answered with status {answer.status}")
    return answer


def _data(answer: Forwarded) -> Mapping[str, Any]:
    """The `data` of an answer; nothing where it is none."""
    try:
        data = orjson.loads(answer.body)["data"] if answer.status == 200 else {}
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return {}
    return data if isinstance(data, dict) else {}
