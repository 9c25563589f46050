"""Which metrics, labels and values have the most series, counted over columns of label pairs."""

from dataclasses import dataclass

import numpy as np

from precompute.labels import METRIC_NAME, SeriesTable
from precompute.samples import I32, I64

Ranking = list[tuple[str, int]]
"""Names and their counts, the largest first; equal ones in order of names."""


@dataclass(frozen=True)
class Cardinality:
    """The largest of each kind, and how many label pairs there are."""

    pairs: int
    series_by_metric: Ranking
    values_by_label: Ranking
    bytes_by_label: Ranking
    """Bytes of the label's names and values, once for each series that has it."""
    series_by_pair: Ranking
    """Named as `label=value`."""


def cardinality(table: SeriesTable, most: int) -> Cardinality:
    """Of every series that a table knows; up to `most` of each kind."""
    symbols = table.symbols
    names, values, counts = table.pair_counts()
    labels, first = np.unique(names, return_index=True)
    weight = (symbols.lengths(names) + symbols.lengths(values)) * counts
    of_metrics = names == symbols.find(METRIC_NAME)
    texts = symbols.texts
    largest = _largest(counts, most)
    by_pair = zip(texts(names[largest].tolist()), texts(values[largest].tolist()), strict=True)
    return Cardinality(
        len(names),
        _named(table, values[of_metrics], counts[of_metrics], most),
        _named(table, labels, np.diff(first, append=len(names)), most),
        _named(table, labels, _sums(weight, first), most),
        _ordered([f"{name}={value}" for name, value in by_pair], counts[largest]),
    )


def _sums(weight: I64, first: I64) -> I64:
    """The sum of each stretch of `weight`, which begin at `first`."""
    return np.add.reduceat(weight, first) if len(first) else weight


def _named(table: SeriesTable, symbols: I32, counts: I64, most: int) -> Ranking:
    largest = _largest(counts, most)
    return _ordered(table.symbols.texts(symbols[largest].tolist()), counts[largest])


def _largest(counts: I64, most: int) -> I64:
    """The places of up to `most` of the largest counts."""
    if len(counts) <= most:
        return np.arange(len(counts))
    return np.argpartition(counts, len(counts) - most)[-most:]


def _ordered(names: list[str], counts: I64) -> Ranking:
    return sorted(zip(names, counts.tolist(), strict=True), key=lambda one: (-one[1], one[0]))
