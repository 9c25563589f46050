"""The two systems that are asked: a real Prometheus over HTTP, and the head in this process, by its own JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from precompute.clock import ManualClock, SystemClock
from precompute.errors import QueryError
from precompute.evaluate.context import Evaluation, Features
from precompute.evaluate.evaluator import result, unsupported
from precompute.evaluate.head_source import HeadSource
from precompute.evaluate.limits import Budget, Limits
from precompute.selection import Index
from query.answers import Answer
from query.api import encode
from query.errors import answer_for
from query.promql.parse import parse
from tests.bench.client import WRITE_HEADERS, Client
from tests.differential.grammar import RENAMED
from tests.differential.outcomes import Asked, Outcome, of_json
from tests.e2e.talking import seconds
from tests.ingest.node import NOW_MS, Node, make_node
from tests.ingest.wire import snappy

LOOKBACK_MS = 300_000
FLAGS = (
    "--web.enable-remote-write-receiver", "--storage.tsdb.retention.time=100y", "--log.level=error",
    "--query.max-concurrency=4",
)  # fmt: skip
_TIMEOUT_MS = 30_000


class Here:
    """A write side in memory, and the evaluator over its head."""

    def __init__(self, folder: Path, request: bytes, end_ms: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._node: Node = make_node(folder)
        assert isinstance(self._node.clock, ManualClock)
        self._node.clock.advance(end_ms - NOW_MS)
        taken = self._node.send(request)
        assert not taken.refused, taken.text()
        self._source = HeadSource(self._node.intake.head, Index())

    def lacks(self, text: str) -> str:
        """The feature that the evaluator does not know yet; empty if it knows all."""
        return unsupported(parse(translated(text))) or ""

    def ask(self, asked: Asked) -> Outcome:
        """The outcome, by way of the response's body."""
        times = np.array(asked.times(), np.int64)
        at = Evaluation(
            self._source, times, LOOKBACK_MS, Budget(Limits(), SystemClock(), _TIMEOUT_MS), asked.start_ms,
            asked.end_ms, features=Features(experimental_functions=True), step_ms=asked.step_ms,
        )  # fmt: skip
        try:
            value = result(parse(translated(asked.text)), at)
        except QueryError as error:
            return of_json(_failure(error))
        kind = "range" if asked.step_ms else "instant"
        return of_json(json.loads(encode.answer(Answer(value, times, kind, ("head",), "exact"))))


def _failure(error: QueryError) -> Any:
    return json.loads(encode.failure(answer_for(error)[1], str(error)))


class There:
    """A Prometheus."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def write(self, request: bytes) -> None:
        self._client.request("POST", "/api/v1/write", snappy(request), WRITE_HEADERS).checked(204)

    def ask(self, asked: Asked) -> Outcome:
        path, parameters = "/api/v1/query", {"query": asked.text, "time": seconds(asked.start_ms)}
        if asked.step_ms:
            path, parameters = "/api/v1/query_range", _span(asked)
        return of_json(self._client.get(path, **parameters).json())


def _span(asked: Asked) -> dict[str, str]:
    return {
        "query": asked.text, "start": seconds(asked.start_ms), "end": seconds(asked.end_ms),
        "step": seconds(asked.step_ms),
    }  # fmt: skip


def translated(text: str, names: Mapping[str, str] = RENAMED) -> str:
    """The query in the words of Prometheus 3."""
    for old, new in names.items():
        text = text.replace(f"{old}(", f"{new}(")
    return text
