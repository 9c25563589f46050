"""Asks queries that want too much, in a process of its own: what each raises, how long it takes, what memory it needs.

    python -m tests.precompute.evaluate.hungry < queries, one JSON a line > outcomes, one JSON a line
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from precompute.clock import SystemClock
from precompute.errors import QueryError
from precompute.evaluate.context import Evaluation, Features
from precompute.evaluate.evaluator import result
from precompute.evaluate.head_source import HeadSource
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Vector
from precompute.head import Head
from precompute.labels import SeriesTable
from precompute.samples import Block
from precompute.selection import Index
from query.promql.parse import parse
from tests.ingest.wire import encode_labels

BIG, SIDE = 200_000, 1000
STEP_MS = 600_000


@dataclass(frozen=True)
class Asked:
    text: str
    steps: int = 1
    timeout_ms: int = 120_000


@dataclass(frozen=True)
class Outcome:
    """error: the class of what was raised, "" if nothing was; grown_mb: the peak above what was held before.

    took_s: by the clock on the wall; worked_s: of processors, which is the same on a busy machine.
    """

    error: str
    text: str
    took_s: float
    worked_s: float
    grown_mb: float
    rows: int


def main() -> None:
    source = HeadSource(_head(), Index())
    for line in sys.stdin:
        print(json.dumps(asdict(_outcome(source, Asked(**json.loads(line))))), flush=True)


def _head() -> Head:
    """`big`, of many series; `left` and `right`, the series of the latter each at a step of its own."""
    table = SeriesTable()
    head = Head(table, 1 << 28)
    runs = [encode_labels([("__name__", name), ("i", str(k))]) for name, k in _named()]
    length = np.fromiter(map(len, runs), np.int64, len(runs))
    sid = table.intern_runs(np.frombuffer(b"".join(runs), np.uint8), np.cumsum(length) - length, length)
    for step in range(SIDE):
        here = np.append(sid[BIG : BIG + SIDE], sid[BIG + SIDE + step])
        if step in (0, SIDE - 1):
            here = np.append(here, sid[:BIG])
        head.append(Block(here.astype(np.int32), np.full(len(here), step * STEP_MS), np.arange(len(here)) * 1.5))
    return head


def _named() -> Iterator[tuple[str, int]]:
    for name, count in (("big", BIG), ("left", SIDE), ("right", SIDE)):
        yield from ((name, k) for k in range(count))


def _outcome(source: HeadSource, asked: Asked) -> Outcome:
    Path("/proc/self/clear_refs").write_text("5")
    before, begun_s, begun_work_s = _memory_mb("VmRSS"), time.perf_counter(), time.process_time()
    error, text, rows = "", "", 0
    try:
        rows = _rows(source, asked)
    except QueryError as failed:
        error, text = type(failed).__name__, str(failed)
    took_s, worked_s = time.perf_counter() - begun_s, time.process_time() - begun_work_s
    return Outcome(error, text, took_s, worked_s, _memory_mb("VmHWM") - before, rows)


def _rows(source: HeadSource, asked: Asked) -> int:
    times = np.arange(asked.steps, dtype=np.int64) * STEP_MS + 1
    budget = Budget(Limits(), SystemClock(), asked.timeout_ms)
    at = Evaluation(
        source, times, 300_000, budget, int(times[0]), int(times[-1]), features=Features(experimental_functions=True)
    )
    value = result(parse(asked.text), at)
    assert isinstance(value, Vector)
    return len(value)


def _memory_mb(name: str) -> float:
    """A line of /proc/self/status, resident set or its peak since it was last cleared."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


if __name__ == "__main__":
    main()
