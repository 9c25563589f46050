"""An encoder of remote write 1.0 that shares nothing with the decoder; for tests and benchmarks."""

import struct
from collections.abc import Iterable, Sequence

import cramjam
import numpy as np
import numpy.typing as npt

Pairs = Iterable[tuple[str, str]]


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def encode_labels(labels: Pairs) -> bytes:
    """A label run: the Label fields of a TimeSeries, in the order given."""
    return b"".join(field(1, field(1, name.encode()) + field(2, value.encode())) for name, value in labels)


def encode_sample(t_ms: int, value: float) -> bytes:
    """A Sample as Prometheus writes it: a field that is 0 is left out."""
    bits = struct.pack("<d", value)
    return field(2, (b"\x09" + bits if bits != bytes(8) else b"") + (b"\x10" + varint(t_ms) if t_ms else b""))


def encode_series(labels: Pairs, samples: Iterable[tuple[int, float]]) -> bytes:
    return field(1, encode_labels(labels) + b"".join(encode_sample(t, v) for t, v in samples))


def encode_write_request(series: Iterable[tuple[Pairs, Iterable[tuple[int, float]]]]) -> bytes:
    """An unpacked WriteRequest of (labels, [(t_ms, value), …])."""
    return b"".join(encode_series(labels, samples) for labels, samples in series)


def encode_metadata(kind: int, family: str, help_text: str = "", unit: str = "") -> bytes:
    texts = field(2, family.encode()) + field(4, help_text.encode()) + field(5, unit.encode())
    return field(3, b"\x08" + varint(kind) + texts)


def snappy(body: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(body))


def zstd(body: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(body))


def encode_columns(
    label_runs: Sequence[bytes],
    t_ms: npt.NDArray[np.int64],
    values: npt.NDArray[np.float64],
    samples_per_series: int,
) -> bytes:
    """An unpacked WriteRequest of equally long series, quickly; times in (2^35, 2^42) ms, row-major columns."""
    rows = _sample_rows(t_ms, values).reshape(len(label_runs), samples_per_series * 18)
    out = []
    for run, row in zip(label_runs, rows, strict=True):
        out += [b"\x0a", varint(len(run) + len(row)), run, row.tobytes()]
    return b"".join(out)


def _sample_rows(t_ms: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Samples as uint8[n, 18]; a value of 0 is written out."""
    rows = np.empty((len(t_ms), 18), np.uint8)
    rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 11] = 0x12, 16, 0x09, 0x10
    rows[:, 3:11] = np.ascontiguousarray(values, np.float64).view(np.uint8).reshape(-1, 8)
    for k in range(6):
        rows[:, 12 + k] = (t_ms >> (7 * k) & 127) | (128 if k < 5 else 0)
    return rows
