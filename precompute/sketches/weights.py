"""What sketches of weighted keys share: which weights are taken, and the total of each row.

Weights are finite and not negative. A row that was given others, or whose total overflowed, knows nothing about its
keys' weights: estimates are NaN there. A weight of zero leaves no trace.
"""

import numpy as np

from precompute.samples import F64, I64, U64, Bool
from precompute.sketches.base import Array, Column, Items, State
from precompute.sketches.keyed import sums_by_place

TOTALS = (Column("total", "<f8"), Column("refused", "<i8"))
"""total: the weights taken, summed; refused: how many could not be taken."""


def weighty(items: Items) -> tuple[I64, U64, F64]:
    """Row, key and weight of the items that weigh something."""
    taken = _taken(items.value) & (items.value > 0)
    return items.row[taken].astype(np.int64), items.key[taken], items.value[taken]


def totals_of(items: Items) -> dict[str, Array]:
    """The columns TOTALS of single items."""
    row, _, weight = weighty(items)
    refused = np.bincount(items.row[~_taken(items.value)], minlength=items.rows)
    return {"total": sums_by_place(row, weight, items.rows), "refused": refused.astype(np.int64)}


def merged_totals(state: State, into: I64, n_rows: int) -> dict[str, Array]:
    """The columns TOTALS of rows merged `into` rows."""
    refused = np.zeros(n_rows, np.int64)
    np.add.at(refused, into, state["refused"])
    return {"total": sums_by_place(into, state["total"], n_rows), "refused": refused}


def known(state: State) -> Bool:
    """Rows whose weights were all taken and did not overflow; bool[rows]."""
    return np.asarray((state["refused"] == 0) & np.isfinite(state["total"]))


def fit(state: State, *weights: F64) -> bool:
    """Whether totals and these columns of weights are what sums of weights can be."""
    columns = (state["total"], state["refused"], *weights)
    return all(bool((column >= 0).all()) for column in columns)


def _taken(weight: F64) -> Bool:
    return np.asarray((weight >= 0) & np.isfinite(weight))
