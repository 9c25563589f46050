"""Answers as Prometheus' JSON, written from columns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from precompute.evaluate.order import label_order
from precompute.evaluate.values import Frame, Matrix, Scalar, Text, Value, Vector
from precompute.kernels.labels import distinct
from precompute.runs import SymbolTable
from precompute.samples import F64, I32, I64, U8
from query.answers import Answer
from query.api import json_kernels as kernel
from query.numbers import plain

_TILE_POINTS = 1 << 20
"""Points that are written at once; bounds the memory beside the answer itself."""


def success(data: bytes, warnings: Sequence[str] = (), infos: Sequence[str] = ()) -> bytes:
    """Prometheus' envelope around `data`, which is JSON already."""
    notes = b"".join(
        b',"%s":%s' % (name, orjson.dumps(list(dict.fromkeys(texts))))
        for name, texts in ((b"warnings", warnings), (b"infos", infos))
        if texts
    )
    return b'{"status":"success","data":' + data + notes + b"}"


def failure(error_type: str, text: str) -> bytes:
    """Prometheus' envelope of an error."""
    return orjson.dumps({"status": "error", "errorType": error_type, "error": text})


def answer(made: Answer, limit: int = 0, stats: Mapping[str, Any] | None = None) -> bytes:
    """The whole response body of a query; at most `limit` series unless it is 0, and a warning where more were.

    stats: what `data` says beside the value.
    """
    value, warnings = made.value, made.warnings
    if isinstance(value, (Vector, Matrix)):
        value = _sorted(value, made.kind)
        if limit and len(value) > limit:
            value = value.take(np.arange(limit))
            warnings = (*warnings, "results truncated due to limit")
    data = _data(made, value)
    if stats is not None:
        data = data[:-1] + b',"stats":' + orjson.dumps(stats) + b"}"
    return success(data, warnings, made.infos)


def _sorted(value: Vector | Matrix, kind: str) -> Vector | Matrix:
    """In order of labels; an instant vector in an order that the query asked for keeps it."""
    if isinstance(value, Matrix):
        return value.take(label_order(value.frame))
    value = value.seen()
    return value if value.ordered and kind == "instant" else value.take(label_order(value.frame))


def _data(made: Answer, value: Value) -> bytes:
    if isinstance(value, Matrix):
        return b'{"resultType":"matrix","result":[' + _samples(value) + b"]}"
    if made.kind == "range":
        result = _matrix(_one_series(value) if isinstance(value, Scalar) else value, made.times)
        return b'{"resultType":"matrix","result":[' + result + b"]}"
    if isinstance(value, Vector):
        return (
            b'{"resultType":"vector","result":['
            + _series(value, made.times, b'{"metric":', b',"value":', b"}", False)
            + b"]}"
        )
    if isinstance(value, Scalar):
        return b'{"resultType":"scalar","result":%s}' % _single(made, plain(float(value.values[0])))
    return b'{"resultType":"string","result":%s}' % _single(made, value.value)


def _single(made: Answer, text: str) -> bytes:
    """A scalar or a string at its time, which Prometheus writes as any other number, and not as those of samples."""
    t_ms = int(made.times[0])
    return orjson.dumps([t_ms / 1000 if t_ms % 1000 else t_ms // 1000, text])


def _matrix(value: Vector | Text, times: I64) -> bytes:
    assert isinstance(value, Vector), "the engine refuses a string as a range query"
    return _series(value, times, b'{"metric":', b',"values":[', b"]}", True)


def _one_series(value: Scalar) -> Vector:
    frame = Frame((), np.zeros((1, 0), np.int32), SymbolTable())
    shape = (1, len(value.values))
    return Vector(frame, value.values.reshape(shape), np.ones(shape, np.bool_), np.zeros(1, np.int32))


def _series(value: Vector, times: I64, before: bytes, between: bytes, after: bytes, ranged: bool) -> bytes:
    """Every row in order, separated by commas; rows are present at some step."""
    texts = _Texts(value.frame)
    around = tuple(np.frombuffer(piece, np.uint8) for piece in (before, between, after))
    rows = max(1, _TILE_POINTS // max(1, len(times)))
    tiles = []
    for first in range(0, len(value), rows):
        tile = value.take(np.arange(first, min(first + rows, len(value))))
        points = np.ascontiguousarray(tile.values[tile.present])
        codes = texts.codes[first : first + rows]
        fixed = len(tile) * (len(before) + len(between) + len(after) + 3)
        out = np.empty(fixed + texts.size(codes) + len(points) * kernel.POINT_BYTES, np.uint8)
        pieces = (*texts.names, *texts.values)
        end = kernel.write_series(out, codes, pieces, times, points, tile.present, numbers(points), around, ranged)
        tiles.append(out[:end].tobytes())
    return b",".join(tiles)


def _samples(value: Matrix) -> bytes:
    """Every row's own samples, separated by commas."""
    texts, tiles, first = _Texts(value.frame), [], 0
    around = tuple(np.frombuffer(piece, np.uint8) for piece in (b'{"metric":', b',"values":[', b"]}"))
    while first < len(value):
        last = max(first + 1, int(np.searchsorted(value.starts, value.starts[first] + _TILE_POINTS, "right")) - 1)
        tile = value.take(np.arange(first, last))
        codes = texts.codes[first:last]
        out = np.empty(32 * len(tile) + texts.size(codes) + len(tile.values) * kernel.POINT_BYTES, np.uint8)
        pieces = (*texts.names, *texts.values)
        end = kernel.write_samples(
            out, codes, pieces, tile.starts, tile.t_ms, tile.values, numbers(tile.values), around
        )
        tiles.append(out[:end].tobytes())
        first = last
    return b",".join(tiles)


class _Texts:
    """The labels of a frame as pieces of JSON: names `"name":`, values `"value"`, and each row's codes into them."""

    def __init__(self, frame: Frame) -> None:
        columns = sorted(range(len(frame.names)), key=frame.names.__getitem__)
        symbols = np.ascontiguousarray(frame.codes[:, columns])
        used, place = distinct(symbols)
        absent = len(used) > 0 and used[0] == 0
        self.codes: I32 = (place - absent).astype(np.int32)
        self.names = arena(orjson.dumps(frame.names[k]) + b":" for k in columns)
        self.values = arena(map(orjson.dumps, frame.symbols.texts(used[int(absent) :].tolist())))

    def size(self, codes: I32) -> int:
        """Bytes that the label sets of these rows take."""
        name_lengths, value_lengths = np.diff(self.names[1]), np.diff(self.values[1])
        held = codes >= 0
        return int((held * (name_lengths + 1)).sum() + value_lengths[codes[held]].sum())


def numbers(points: F64) -> U8:
    """The points as text, shortest that reads back the same, as the kernels take it."""
    text = orjson.dumps(points, option=orjson.OPT_SERIALIZE_NUMPY)
    return np.frombuffer(text[:-1] + kernel.AFTER_NUMBERS, np.uint8)


def arena(pieces: Iterable[bytes]) -> tuple[U8, I64]:
    """Texts one after another, and their offsets int64[n + 1]."""
    kept = list(pieces)
    offsets = np.zeros(len(kept) + 1, np.int64)
    np.cumsum([len(piece) for piece in kept], out=offsets[1:])
    return np.frombuffer(b"".join(kept), np.uint8), offsets
