"""Remote-write bodies, encoded and compressed before anything is measured, and kept in one file per kind.

    kind       a request holds                        order
    one        1 sample of each of 5,000 series       time, then series
    twenty     20 samples of each of 2,000 series     20 steps of time, then series

All series keep their place in a request from batch to batch, as a sender's targets do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.bench.data import Dataset
from tests.ingest.wire import encode_columns, snappy

_SAMPLE = 18
_VALUE_AT, _TIME_AT, _TIME_BYTES = 3, 12, 6


@dataclass(frozen=True)
class Kind:
    """How samples are put into requests."""

    name: str
    samples_per_series: int
    series_per_request: int


ONE = Kind("one", 1, 5000)
TWENTY = Kind("twenty", 20, 2000)


class Request:
    """A write request of fixed series, in which times and values are filled in."""

    def __init__(self, label_runs: Sequence[bytes], samples_per_series: int) -> None:
        rows = len(label_runs) * samples_per_series
        blank = encode_columns(label_runs, np.full(rows, 1 << 40), np.zeros(rows), samples_per_series)
        self._body = np.frombuffer(blank, np.uint8).copy()
        payload = samples_per_series * _SAMPLE
        lengths = np.array([len(encode_columns([run], *_blank(samples_per_series))) for run in label_runs])
        first = np.cumsum(lengths) - payload
        row_at = (first[:, None] + np.arange(samples_per_series) * _SAMPLE).ravel()
        self._value_at = row_at[:, None] + np.arange(_VALUE_AT, _VALUE_AT + 8)
        self._time_at = row_at[:, None] + np.arange(_TIME_AT, _TIME_AT + _TIME_BYTES)

    def packed(self, t_ms: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> bytes:
        """The compressed body of these samples: t_ms int64[k], the same for each series; values float64[series, k]."""
        self._body[self._value_at] = np.ascontiguousarray(values).view(np.uint8).reshape(-1, 8)
        places = np.arange(_TIME_BYTES)
        varints = (t_ms[:, None] >> (7 * places) & 127) | np.where(places < _TIME_BYTES - 1, 128, 0)
        self._body[self._time_at] = np.tile(varints.astype(np.uint8), (len(values), 1))
        return snappy(self._body.tobytes())


def _blank(samples: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], int]:
    return np.full(samples, 1 << 40), np.zeros(samples), samples


class Encoder:
    """All series' requests of one kind."""

    def __init__(self, data: Dataset, kind: Kind) -> None:
        self._data, self._kind = data, kind
        runs, size = data.label_runs(), kind.series_per_request
        self._parts = [slice(first, min(first + size, len(runs))) for first in range(0, len(runs), size)]
        self._requests = [Request(runs[part], kind.samples_per_series) for part in self._parts]

    def batch(self, times_ms: Sequence[int]) -> Iterator[bytes]:
        """The bodies that bring all series' samples of these times."""
        values = np.stack([self._data.values(t) for t in times_ms], axis=1)
        times = np.array(times_ms, np.int64)
        for part, request in zip(self._parts, self._requests, strict=True):
            yield request.packed(times, values[part])


@dataclass(frozen=True)
class Bodies:
    """Encoded bodies in a file; `batches` holds per batch each body's (offset, length)."""

    path: Path
    kind: Kind
    batches: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def packed_bytes(self) -> int:
        return self.path.stat().st_size

    def read(self, first: int, last: int) -> Iterator[bytes]:
        """The bodies of batches first … last − 1, in the order to send them."""
        with self.path.open("rb") as file:
            for batch in self.batches[first:last]:
                for offset, length in batch:
                    file.seek(offset)
                    yield file.read(length)


def encode(data: Dataset, kind: Kind, folder: Path) -> Bodies:
    """Encode the whole dataset."""
    encoder, times, path = Encoder(data, kind), data.times_ms, folder / f"{kind.name}.bodies"
    batches, size = [], kind.samples_per_series
    with path.open("wb") as file:
        for first in range(0, len(times), size):
            places = []
            for body in encoder.batch(times[first : first + size]):
                places.append((file.tell(), len(body)))
                file.write(body)
            batches.append(tuple(places))
    return Bodies(path, kind, tuple(batches))
