"""Newest samples as a page of Prometheus' text format, as its /federate writes it (web/federate.go)."""

import re

import numpy as np

from precompute.evaluate.order import label_order
from precompute.evaluate.values import Frame
from precompute.kernels.labels import distinct
from precompute.labels import METRIC_NAME
from precompute.samples import I32, I64, U8
from query.api.encode import arena, numbers
from query.kernels.exposition import ROW_BYTES, write_lines
from query.series import Newest

_INSTANCE = "instance"
_PLAIN = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*", re.ASCII)
_PLAIN_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_:]|^[0-9]", re.ASCII)
_ROWS_AT_ONCE = 1 << 16

Arena = tuple[U8, I64]


def exposition(newest: Newest, utf8_names: bool) -> bytes:
    """A line per series in order of metrics, then labels; series without a metric name are left out.

    utf8_names: names that the older format does not know are quoted, instead of being written with underscores.
    A series without an instance gets an empty one, so that its reader adds none.
    """
    if METRIC_NAME not in newest.frame.names:
        return b""
    newest = _in_order(newest)
    page = _Page(newest.frame, utf8_names)
    rows = range(0, len(newest.values), _ROWS_AT_ONCE)
    return b"".join(page.lines(newest, first, min(first + _ROWS_AT_ONCE, len(newest.values))) for first in rows)


def _in_order(newest: Newest) -> Newest:
    rows = label_order(newest.frame)
    metrics = newest.frame.codes[rows, newest.frame.names.index(METRIC_NAME)]
    used, place = distinct(metrics)
    texts = newest.frame.symbols.texts(used.tolist())
    ranks = np.empty(len(used), np.int64)
    ranks[sorted(range(len(used)), key=texts.__getitem__)] = np.arange(len(used))
    by_metric = np.argsort(ranks[place], kind="stable")
    return newest.take(rows[by_metric[metrics[by_metric] > 0]])


class _Page:
    """The texts of a frame's labels, as pieces that lines are put together from."""

    def __init__(self, frame: Frame, utf8_names: bool) -> None:
        names = [*sorted(name for name in frame.names if name != METRIC_NAME), _INSTANCE]
        metrics = frame.codes[:, frame.names.index(METRIC_NAME)]
        used, self._metrics = distinct(np.ascontiguousarray(metrics))
        self._codes, values = _label_codes(frame, names)
        texts = frame.symbols.texts(used.tolist())
        written = [name if utf8_names else _NOT_PLAIN.sub("_", name) for name in texts]
        labels = [name if utf8_names else _NOT_PLAIN.sub("_", name) for name in names]
        self._texts: tuple[Arena, Arena, Arena, Arena] = (
            arena(f"# TYPE {_quoted_unless_plain(name)} untyped\n".encode() for name in written),
            arena(_begin(name) for name in written),
            arena(f"{_label(name)}=".encode() for name in labels),
            arena(_quoted(text).encode() for text in values),
        )

    def lines(self, newest: Newest, first: int, last: int) -> bytes:
        metrics, codes = self._metrics[first:last], self._codes[first:last]
        values = np.ascontiguousarray(newest.values[first:last])
        out = np.empty(self._size(metrics, codes), np.uint8)
        end = write_lines(out, metrics, codes, self._texts, newest.t_ms[first:last], values, numbers(values))
        return out[:end].tobytes()

    def _size(self, metrics: I32, codes: I32) -> int:
        """Bytes that these rows take at most."""
        heads, begins, names, values = (np.diff(offsets) for _, offsets in self._texts)
        held = codes >= 0
        labels = (held * (names + 1)).sum() + values[codes[held]].sum()
        return int(heads.sum() + begins[metrics].sum() + labels) + ROW_BYTES * len(metrics)


def _label_codes(frame: Frame, names: list[str]) -> tuple[I32, list[str]]:
    """Codes int32[n, k] of the labels' values, -1 where absent, and the values.

    The last column is the empty instance of the rows that have no other.
    """
    symbols = np.zeros((len(frame), len(names)), np.int32)
    for k, name in enumerate(names[:-1]):
        symbols[:, k] = frame.codes[:, frame.names.index(name)]
    used, place = distinct(symbols)
    codes = np.where(symbols == 0, -1, place).astype(np.int32)
    codes[:, -1] = len(used)
    codes[symbols[:, names.index(_INSTANCE)] > 0, -1] = -1
    return codes, [*frame.symbols.texts(used.tolist()), ""]


def _begin(metric: str) -> bytes:
    return (f"{metric}{{" if _PLAIN.fullmatch(metric) else f"{{{_quoted(metric)},").encode()


def _quoted_unless_plain(metric: str) -> str:
    return metric if _PLAIN.fullmatch(metric) else _quoted(metric)


def _label(name: str) -> str:
    return name if _PLAIN_LABEL.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return f'"{escaped}"'
