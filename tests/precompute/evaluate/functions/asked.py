"""Expressions asked of a few drawn series."""

from collections.abc import Mapping, Sequence

import numpy as np

from precompute.clock import ManualClock
from precompute.evaluate.context import Evaluation, Features, Notes
from precompute.evaluate.evaluator import result
from precompute.evaluate.head_source import HeadSource
from precompute.evaluate.limits import Budget, Limits
from precompute.evaluate.values import Scalar, Value, Vector
from precompute.head import Head
from precompute.labels import SeriesTable
from precompute.samples import Block
from precompute.selection import Index
from query.promql.parse import parse

Series = Mapping[str, Sequence[float | None]]
Drawn = dict[str, Sequence[float | None]]
"""By series, as a selector writes it: its values at 0 s, 10 s, 20 s, …; None for no sample."""

STEP_MS = 10_000
EVERY = Features(experimental_functions=True)


def source_of(series: Series) -> HeadSource:
    head = Head(SeriesTable(), 1 << 24)
    for text, values in series.items():
        labels = tuple((m.name, m.value) for m in parse(text).matchers)  # type: ignore[union-attr]
        held = [(k * STEP_MS, v) for k, v in enumerate(values) if v is not None]
        sid = np.full(len(held), head.table.intern(tuple(sorted(labels))), np.int32)
        t_ms, numbers = np.array([t for t, _ in held], np.int64), np.array([v for _, v in held], np.float64)
        head.append(Block(sid, t_ms, numbers))
    return HeadSource(head, Index())


class Asked:
    """A query over drawn series, at times in seconds."""

    def __init__(
        self, series: Series, text: str, *times_s: float, features: Features = EVERY, limits: Limits | None = None
    ) -> None:
        times = np.array([round(t * 1000) for t in times_s], np.int64)
        step_ms = int(times[1] - times[0]) if len(times) > 1 else 0
        budget = Budget(limits or Limits(), ManualClock(), 60_000)
        self.notes = Notes()
        at = Evaluation(
            source_of(series),
            times,
            300_000,
            budget,
            int(times[0]),
            int(times[-1]),
            None,
            self.notes,
            features,
            step_ms,
        )
        self.value: Value = result(parse(text), at)

    def rows(self) -> dict[str, list[float | None]]:
        """By label set, in order of rows: the values at the steps, None where there is none."""
        assert isinstance(self.value, Vector)
        value = self.value.seen()
        texts = [",".join(f"{name}={text}" for name, text in value.frame.labels(row)) for row in range(len(value))]
        assert len(set(texts)) == len(texts), "a label set stands twice"
        cells = zip(value.values.tolist(), value.present.tolist(), strict=True)
        rows = [[v if there else None for v, there in zip(vs, ps, strict=True)] for vs, ps in cells]
        return dict(zip(texts, rows, strict=True))

    def numbers(self) -> list[float]:
        """The scalar at each step."""
        assert isinstance(self.value, Scalar)
        return list(map(float, self.value.values))


def rows(series: Series, text: str, *times_s: float) -> dict[str, list[float | None]]:
    """What a query over drawn series comes to."""
    return Asked(series, text, *times_s).rows()
