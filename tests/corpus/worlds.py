"""Worlds of expressions that share no metric, one after another in time, and their samples as they are sent."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from tests.corpus.drawing import INTERVAL_S, SAMPLES, Series, draw
from tests.corpus.reading import Question
from tests.differential.outcomes import Asked
from tests.differential.world import World
from tests.ingest.wire import encode_columns, encode_labels

APART_MS = 3_600_000
LENGTH_MS = (SAMPLES - 1) * INTERVAL_S * 1000
_FIRST_S, _LAST_S = 1080, 1440
_OFF_MS = 950
_FARTHEST_MS = 900
"""No sample lies so far in its second or farther, nor on its beginning: none is on the edge of a range."""

_MOST = 80
_RANGED = 1 / 3
_STEPS_S = (30, 60, 61, 300)


def apart(questions: Sequence[Question]) -> list[list[Question]]:
    """Groups in which no two expressions speak of one metric."""
    groups: list[tuple[set[str], list[Question]]] = []
    for question in questions:
        names = question.metrics()
        taken, members = next((g for g in groups if not g[0] & names and len(g[1]) < _MOST), (None, None))
        if taken is None or members is None:
            taken, members = set(), []
            groups.append((taken, members))
        taken |= names
        members.append(question)
    return [members for _, members in groups]


@dataclass(frozen=True)
class Place:
    """One world: its expressions' series, half an hour from `start_ms` on, which is a whole second."""

    start_ms: int
    series: Series
    shifts_ms: dict[str, int]
    """Where in its second a metric's samples lie."""

    @staticmethod
    def drawn(questions: Sequence[Question], random: Random, start_ms: int) -> "Place":
        series: Series = {}
        for question in questions:
            series |= draw(question.expr, random, (start_ms + LENGTH_MS) / 1000)
        names = sorted({dict(pairs)["__name__"] for pairs in series})
        return Place(start_ms, series, {name: random.randrange(1, _FARTHEST_MS) for name in names})

    @property
    def samples(self) -> int:
        return sum(map(len, self.series.values()))

    def request(self) -> bytes:
        """All samples as remote write carries them, unpacked."""
        by_length: defaultdict[int, list[tuple[bytes, int, np.ndarray]]] = defaultdict(list)
        for pairs, values in self.series.items():
            by_length[len(values)].append((encode_labels(pairs), self._first_ms(pairs), values))
        return b"".join(_encoded(count, rows) for count, rows in by_length.items())

    def known(self, question: Question) -> World:
        """The series of an expression's metrics, sample by sample."""
        names = question.metrics()
        return {
            pairs: [(self._first_ms(pairs) + k * INTERVAL_S * 1000, float(v)) for k, v in enumerate(values)]
            for pairs, values in self.series.items()
            if dict(pairs)["__name__"] in names
        }

    def _first_ms(self, pairs: tuple[tuple[str, str], ...]) -> int:
        return self.start_ms + self.shifts_ms[dict(pairs)["__name__"]]

    def asked(self, question: Question, random: Random) -> Iterator[Asked]:
        """An instant query, and now and then a range query, at times off the samples' grid."""
        at_ms = self.start_ms + random.randrange(_FIRST_S, _LAST_S) * 1000 + _OFF_MS
        yield Asked(question.text, at_ms, at_ms, 0)
        if random.random() < _RANGED:
            step_ms = random.choice(_STEPS_S) * 1000
            yield Asked(question.text, at_ms - 10 * step_ms, at_ms, step_ms)


def _encoded(count: int, rows: Sequence[tuple[bytes, int, np.ndarray]]) -> bytes:
    runs, first_ms, values = zip(*rows, strict=True)
    times = np.add.outer(np.array(first_ms), np.arange(count) * INTERVAL_S * 1000)
    return encode_columns(runs, times.ravel(), np.concatenate(values), count)
