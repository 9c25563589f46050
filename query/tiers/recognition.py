"""Whether an upstream means by PromQL what we mean, so that its answers can be parts of ours."""

import re
import threading
from collections.abc import Mapping
from typing import Literal

import orjson

from precompute.clock import Clock
from precompute.errors import QueryError
from query.tiers.upstream import Upstream

Parts = Literal["auto", "always", "never"]

_VERSION = re.compile(r"v?([0-9]+)\.[0-9]")
_LIKE_OURS = 3
"""Prometheus' major version whose semantics these are. VictoriaMetrics, with others, gives itself a 2."""
_KNOWN_S, _UNKNOWN_S = 600.0, 15.0
"""How long an answer counts, and how long having had none."""
_TIMEOUT_MS = 3000


class Recognition:
    """Asks the upstream who it is, when that is first needed and again after a while; any thread may call it."""

    def __init__(self, upstream: Upstream, parts: Parts, clock: Clock) -> None:
        self._upstream, self._parts, self._clock = upstream, parts, clock
        self._lock = threading.Lock()
        self._same, self._until_s = False, clock.monotonic_s()

    def same_semantics(self, headers: Mapping[str, str], left_ms: int) -> bool:
        """By configuration, else by its buildinfo; false where it cannot be known. Waits at most `left_ms`."""
        if self._parts != "auto":
            return self._parts == "always"
        with self._lock:
            if self._clock.monotonic_s() >= self._until_s:
                major = self._major(headers, min(left_ms, _TIMEOUT_MS))
                self._same = major == _LIKE_OURS
                self._until_s = self._clock.monotonic_s() + (_UNKNOWN_S if major is None else _KNOWN_S)
            return self._same

    def doubt(self) -> None:
        """After a failure: another server may answer from now on, so ask again before its next part."""
        with self._lock:
            self._until_s = min(self._until_s, self._clock.monotonic_s() + _UNKNOWN_S)

    def _major(self, headers: Mapping[str, str], timeout_ms: int) -> int | None:
        """The major version that it tells; None where it tells none."""
        try:
            answer = self._upstream.get("status/buildinfo", {}, headers, timeout_ms)
            version = orjson.loads(answer.body)["data"]["version"]
        except (QueryError, orjson.JSONDecodeError, KeyError, TypeError):
            return None
        found = _VERSION.match(version) if answer.status == 200 and isinstance(version, str) else None
        return int(found[1]) if found else None
