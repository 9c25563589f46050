"""What histogram_quantile says where bucket counts fell with growing bounds."""

import numpy as np

from precompute.evaluate.context import Evaluation
from precompute.evaluate.expr import quoted
from precompute.evaluate.functions.numbers import go_g
from precompute.evaluate.values import Frame
from precompute.labels import METRIC_NAME
from precompute.samples import F64, I64

_FIXED = (
    "input to histogram_quantile needed to be fixed for monotonicity "
    "(see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)"
)


def for_metric(name: str) -> str:
    """How a note ends that knows the metric's name."""
    return f" for metric name {quoted(name)}" if name else ""


def note_fixes(frame: Frame, fixes: F64, at: Evaluation) -> None:
    """One info for each metric name; fixes float64[h, s, 3] as in kernels.buckets."""
    rows = np.flatnonzero((fixes[:, :, 0] > 0).any(axis=1))
    named = frame.take(rows).keep((METRIC_NAME,) if at.features.delayed_name_removal else ())
    names, group = named.groups()
    for number in range(len(names)):
        name = dict(names.labels(number)).get(METRIC_NAME, "")
        at.notes.inform(_FIXED + for_metric(name) + _details(fixes[rows[group == number]], at.times))


def _details(fixes: F64, times: I64) -> str:
    fixed = fixes[:, :, 0] > 0
    found, when = fixes[fixed], times[fixed.any(axis=0)]
    smallest, largest, difference = found[:, 1].min(), found[:, 2].max(), found[:, 0].max()
    return (
        f", from buckets {go_g(smallest)} to {go_g(largest)}, with a max diff of {difference:.2g}, "
        f"over {len(found)} samples from {_clock(when[0])} to {_clock(when[-1])}"
    )


def _clock(time_ms: np.int64) -> str:
    return f"{np.datetime64(int(time_ms) // 1000, 's')}Z"
