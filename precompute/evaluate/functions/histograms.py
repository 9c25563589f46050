"""Functions of classic histograms, whose buckets are series that differ in the label `le` alone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from precompute.evaluate.context import Evaluate, Evaluation, Rule
from precompute.evaluate.expr import Call, quoted
from precompute.evaluate.functions.arguments import scalar, text, vector
from precompute.evaluate.functions.monotonic import for_metric, note_fixes
from precompute.evaluate.functions.numbers import go_float, go_g, open_metrics
from precompute.evaluate.functions.results import with_label
from precompute.evaluate.names import drop_names, unique
from precompute.evaluate.values import Frame, Value, Vector, joined
from precompute.kernels.buckets import bucket_fractions, bucket_quantiles
from precompute.kernels.labels import group_rows
from precompute.labels import METRIC_NAME
from precompute.samples import F64, I64, Bool

BUCKET = "le"


@dataclass(frozen=True)
class Buckets:
    """Rows histogram by histogram, each by ascending upper bound, as in kernels.buckets."""

    frame: Frame
    """One row a histogram: its labels without `le`."""
    drop_name: Bool | None
    starts: I64
    bounds: F64
    values: F64
    present: Bool


def buckets_of(argument: Vector, at: Evaluation) -> Buckets:
    """The histograms of a vector; warns of rows whose `le` is no number."""
    argument = argument.seen()
    bound, good = _bounds(argument.frame, at)
    rows = argument.take(good)
    bare = rows.frame.drop((BUCKET,))
    group, first = group_rows(np.ascontiguousarray(bare.codes))
    # equal bounds in order of their texts, so that sums do not depend on the order of the rows
    by_text = rows.frame.keep((BUCKET,)).key_order()
    order = by_text[np.lexsort((bound[good][by_text], group[by_text]))]
    starts = np.searchsorted(group[order], np.arange(len(first) + 1))
    marks = None if rows.drop_name is None else rows.drop_name[first]
    return Buckets(bare.take(first), marks, starts, bound[good][order], rows.values[order], rows.present[order])


def _bounds(frame: Frame, at: Evaluation) -> tuple[F64, Bool]:
    """The number that each row's `le` says, float64[n], and whether it says one."""
    codes = frame.spread((BUCKET,), frame.symbols)[:, 0]
    distinct, place = np.unique(codes, return_inverse=True)
    parsed = [go_float(one) for one in frame.symbols.texts(distinct.tolist())]
    good = np.array([one is not None for one in parsed], np.bool_)[place]
    _warn_of_labels(frame.take(~good), at)
    return np.array([one or 0.0 for one in parsed])[place], good


def _warn_of_labels(frame: Frame, at: Evaluation) -> None:
    shown = frame.keep((METRIC_NAME, BUCKET) if at.features.delayed_name_removal else (BUCKET,))
    distinct, _ = shown.groups()
    for row in range(len(distinct)):
        labels = dict(distinct.labels(row))
        wrong = f'bucket label "le" is missing or has a malformed value of {quoted(labels.get(BUCKET, ""))}'
        at.notes.warn(wrong + for_metric(labels.get(METRIC_NAME, "")))


def warn_of_quantiles(phi: F64, at: Evaluation) -> None:
    """Warn of each φ that is no share."""
    for wrong in np.unique(phi[~((phi >= 0) & (phi <= 1))]).tolist():
        at.notes.warn(f"quantile value should be between 0 and 1, got {go_g(wrong)}")


def _histogram_quantile(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    phi = scalar(node.args[0], at, evaluate)
    argument = vector(node.args[1], at, evaluate)
    warn_of_quantiles(phi, at)
    return drop_names(_quantiles(buckets_of(argument, at), phi, at), at)


def _quantiles(buckets: Buckets, phi: F64, at: Evaluation) -> Vector:
    shape = (len(buckets.frame), len(at.times))
    at.budget.cells(4 * shape[0], shape[1])
    out, found, fixes = np.zeros(shape), np.zeros(shape, np.bool_), np.zeros((*shape, 3))
    bucket_quantiles(buckets.bounds, buckets.values, buckets.present, buckets.starts, phi, out, found, fixes)
    note_fixes(buckets.frame, fixes, at)
    return Vector(buckets.frame, out, found, np.zeros(shape[0], np.int32), buckets.drop_name).seen()


def _histogram_fraction(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    lower, above = (scalar(arg, at, evaluate) for arg in node.args[:2])
    buckets = buckets_of(vector(node.args[2], at, evaluate), at)
    shape = (len(buckets.frame), len(at.times))
    at.budget.cells(*shape)
    out, found = np.zeros(shape), np.zeros(shape, np.bool_)
    bucket_fractions(buckets.bounds, buckets.values, buckets.present, buckets.starts, lower, above, out, found)
    made = Vector(buckets.frame, out, found, np.zeros(shape[0], np.int32), buckets.drop_name)
    return drop_names(made.seen(), at)


def _histogram_quantiles(node: Call, at: Evaluation, evaluate: Evaluate) -> Value:
    """Several quantiles at once, told apart by a label that holds φ."""
    argument, label = vector(node.args[0], at, evaluate), text(node.args[1], at, evaluate)
    wanted = [scalar(arg, at, evaluate) for arg in node.args[2:]]
    warn_of_quantiles(np.concatenate(wanted), at)
    buckets = buckets_of(argument, at)
    parts: list[Vector] = []
    for phi in wanted:
        quantiles = _quantiles(buckets, phi, at)
        for one in np.unique(phi).tolist():
            at.budget.cells(sum(map(len, parts)) + len(quantiles), len(at.times))
            here = (phi == one) | (np.isnan(phi) & np.isnan(one))
            at_these = replace(quantiles, present=quantiles.present & here).seen()
            parts.append(_labelled(at_these, label, open_metrics(one)))
    return drop_names(unique(joined(parts, len(at.times))), at)


def _labelled(quantiles: Vector, label: str, value: str) -> Vector:
    everywhere = np.ones(len(quantiles), np.bool_)
    return quantiles.with_frame(
        with_label(quantiles.frame, label, everywhere, [value], np.zeros(len(quantiles), np.int32))
    )


RULES: Mapping[str, Rule] = {
    "histogram_quantile": _histogram_quantile,
    "histogram_quantiles": _histogram_quantiles,
    "histogram_fraction": _histogram_fraction,
}
