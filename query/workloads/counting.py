"""Cardinality asked of a running ASAP or Prometheus, through its HTTP API."""

import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from precompute.evaluate.expr import Aggregate, Expr, Selector, selectors
from query.workloads.base import WorkloadError

_TIMEOUT_S = 60


@dataclass(frozen=True)
class _Failed:
    """Why an expression cannot be evaluated there."""

    why: str


class Server:
    """Answers `count(…)` now. Its own lookback holds, whatever one is asked with.

    Raises WorkloadError where it cannot be asked.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._known: dict[str, int | _Failed] = {}

    def series(self, expr: Expr) -> int:
        return sum(self.count(Selector(selector.matchers)) for selector in selectors(expr))

    def shape(self, expr: Expr, lookback_ms: int) -> "AskedShape | str":
        rows = self._asked(expr)
        return rows.why if isinstance(rows, _Failed) else AskedShape(self, expr)

    def count(self, expr: Expr) -> int:
        """Rows of an instant vector."""
        found = self._asked(expr)
        if isinstance(found, _Failed):
            raise WorkloadError(f"{self.url}: {found.why}")
        return found

    def _asked(self, expr: Expr) -> int | _Failed:
        """Each expression is asked once."""
        text = str(Aggregate("count", expr))
        if text not in self._known:
            self._known[text] = self._ask(text)
        return self._known[text]

    def _ask(self, text: str) -> int | _Failed:
        form = urllib.parse.urlencode({"query": text}).encode()
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/query", form, timeout=_TIMEOUT_S) as answer:
                return _count(orjson.loads(answer.read()))
        except urllib.error.HTTPError as error:
            with error:
                return self._failed(error.code, error.read())
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WorkloadError(f"{self.url} cannot be asked: {getattr(error, 'reason', error)}") from None

    def _failed(self, status: int, body: bytes) -> _Failed:
        """What is wrong with the expression. Raises WorkloadError where it is not the expression."""
        try:
            told = orjson.loads(body)
            if told["errorType"] in ("execution", "bad_data"):
                return _Failed(str(told["error"]))
        except (ValueError, KeyError, TypeError):
            pass
        raise WorkloadError(f"{self.url} answered with status {status}")


def _count(body: Any) -> int:
    rows = body["data"]["result"]
    return int(rows[0]["value"][1]) if rows else 0


@dataclass(frozen=True)
class AskedShape:
    """One expression, as a server counts it."""

    server: Server
    expr: Expr

    @cached_property
    def series(self) -> int:
        return self.server.series(self.expr)

    def groups(self, labels: tuple[str, ...], without: bool) -> int:
        return self.server.count(Aggregate("group", self.expr, labels, without))
