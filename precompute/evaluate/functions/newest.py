"""Of several series that stand for one thing, the one with the newest sample at each step."""

import numpy as np

from precompute.errors import ExecutionError
from precompute.evaluate.expr import quoted
from precompute.evaluate.values import Frame, Vector
from precompute.samples import I64, Bool


def newest_by_key(times: Vector, keys: I64, looked_at: Bool, out: I64) -> None:
    """Put the row with the newest sample of each key at each step into `out` int64[keys, s], filled with -1.

    times: a vector whose values are sample times in seconds; keys int64[n]; looked_at bool[s]: steps that count.
    Raises ExecutionError where two rows of one key are equally new.
    """
    if not len(times):
        return
    order = np.argsort(keys, kind="stable")
    distinct, starts = np.unique(keys[order], return_index=True)
    when = np.where(times.present & looked_at, times.values, -np.inf)[order]
    newest = np.maximum.reduceat(when, starts, axis=0)
    is_newest = (when == np.repeat(newest, np.diff([*starts, len(order)]), axis=0)) & np.isfinite(when)
    count = np.add.reduceat(is_newest, starts, axis=0, dtype=np.int64)
    for key, step in np.argwhere(count > 1)[:1].tolist():
        rows = order[starts[key] :][is_newest[starts[key] :, step]][:2]
        raise ExecutionError(_duplicate(times.frame, rows.tolist(), float(newest[key, step])))
    row = np.add.reduceat(np.where(is_newest, order[:, None], 0), starts, axis=0)
    out[distinct] = np.where(count > 0, row, -1)


def _duplicate(frame: Frame, rows: list[int], time_s: float) -> str:
    one, other = (", ".join(f"{name}={quoted(value)}" for name, value in frame.labels(row)) for row in rows)
    time_ms = round(time_s * 1000)
    return f"found duplicate series for info metric: existing {{{one}}} @ {time_ms}, new {{{other}}} @ {time_ms}"
