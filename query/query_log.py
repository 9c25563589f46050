"""The query log: one JSON line for each query, failed and forwarded ones too.

Lines are made and written by a thread of the log's own, so that a slow disk holds no query up. When too many
wait, or the file cannot be written, lines are lost and counted. The file may be moved away: the next line opens
a new one, as Prometheus' own log does after SIGHUP.
"""

import hashlib
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from typing import Any

import orjson
from prometheus_client import Counter

from precompute.clock import Clock
from precompute.errors import QueryError
from query.answers import Answer, Forwarded
from query.errors import answer_for
from query.metrics import steps_of
from query.promql.parse import MAX_LENGTH, parse

MOST_WAITING = 1000
"""Lines that wait to be written; with the longest texts they take 64 MiB."""

_END_S = 2.0

logger = logging.getLogger(__name__)

Made = Answer | Forwarded


@dataclass(frozen=True)
class Asked:
    """A query as it came. time_ms is None for now; an instant query has one time and no step.

    client: the address; user: the name in the config that it logged in by, or empty.
    """

    kind: str
    query: str
    start_ms: int | None
    end_ms: int | None
    step_ms: int
    client: str
    user: str


class QueryLog:
    """Appends to a file, or to stderr where its name is `-`. Any thread may call it."""

    def __init__(self, target: str, clock: Clock, lost: Counter) -> None:
        self._clock, self._lost, self._failing = clock, lost, False
        self._handler = logging.StreamHandler() if target == "-" else _File(target, encoding="utf-8", delay=True)
        self._waiting: queue.Queue[dict[str, Any] | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._run, name="asap-query-log", daemon=True)
        self._thread.start()

    @contextmanager
    def noting(self, asked: Asked) -> Iterator[Callable[[Made], None]]:
        """Log what happens inside the block, once; call what it yields with the answer."""
        began_s, said = self._clock.monotonic_s(), dict[str, Any](status=500, error="an unexpected error")
        try:
            yield lambda made: said.update({"status": 200, "error": None, **_of(made)})
        except QueryError as error:
            said.update(status=answer_for(error)[0], error=str(error))
            raise
        finally:
            took_s = self._clock.monotonic_s() - began_s
            self._put({"ts_ms": self._clock.now_ms(), "asked": asked, "duration": round(took_s, 6), **said})

    def close(self) -> None:
        """Write what waits; what is noted later is lost."""
        with suppress(queue.Full):
            self._waiting.put(None, timeout=_END_S)
        self._thread.join(_END_S)
        self._handler.close()

    def _put(self, noted: dict[str, Any]) -> None:
        try:
            self._waiting.put_nowait(noted)
        except queue.Full:
            self._lost.inc()

    def _run(self) -> None:
        while (noted := self._waiting.get()) is not None:
            try:
                self._handler.handle(logging.makeLogRecord({"msg": line(noted)}))
                self._failing = False
            except OSError as error:
                self._lost.inc()
                if not self._failing:
                    logger.warning("the query log cannot be written: %s", error)
                self._failing = True


class _File(WatchedFileHandler):
    """One whose errors come out, and which is never waited for: a pipe without a reader is an error."""

    def _open(self) -> TextIOWrapper:
        return TextIOWrapper(open(self.baseFilename, self.mode + "b", opener=_without_waiting), self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:
        raise  # noqa: PLE0704 - called where the error is being handled


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK, 0o666)


def line(noted: dict[str, Any]) -> str:
    """What stands in the log. Times and durations are in seconds."""
    asked: Asked = noted.pop("asked")
    text = asked.query[:MAX_LENGTH].encode("utf-8", "replace").decode()
    times = {"start": asked.start_ms, "end": asked.end_ms, "step": asked.step_ms or None}
    return orjson.dumps(
        {
            "ts": datetime.fromtimestamp(noted.pop("ts_ms") / 1000, UTC).isoformat(timespec="milliseconds"),
            "hash": query_hash(text),
            "query": text,
            "kind": asked.kind,
            **{name: ms / 1000 for name, ms in times.items() if ms is not None},
            **{name: value for name, value in noted.items() if value is not None},
            "client": asked.client,
            **({"user": asked.user} if asked.user else {}),
        }
    ).decode()


@lru_cache(256)  # dashboards ask the same again and again
def query_hash(text: str) -> str:
    """The same for texts that differ only in how they are written: 16 hexadecimal digits."""
    with suppress(QueryError):
        text = str(parse(text))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _of(made: Made) -> dict[str, Any]:
    if isinstance(made, Forwarded):
        return {"status": made.status, "tiers": ["upstream"], "steps": steps_of(made)}
    took = made.told.account if made.told else None
    work = {"samples": took.samples, "panes": took.panes, "groups": took.groups} if took else {}
    return {"tiers": made.tiers, "steps": steps_of(made), **work, "bound": made.bound}
