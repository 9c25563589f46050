"""Count-min's cells.

Source: G. Cormode, S. Muthukrishnan 2005, "An improved data stream summary: the count-min sketch and its
applications". Cells of one row lie as [depth, width].
"""

import numpy as np

from precompute.kernels import inlined, kernel
from precompute.samples import F64, I64, U64
from precompute.sketches.keyed import NOWHERE, add_into, folded, mixed


@inlined
def _cell(key: np.uint64, line: int, width: int) -> np.int64:
    """Which cell of a line a key belongs to; every line has a hash function of its own."""
    h = mixed(key ^ mixed(np.uint64(line + 1)))
    return line * width + np.int64(((h >> np.uint64(32)) * np.uint64(width)) >> np.uint64(32))


@kernel
def fill_cells(
    source: F64, sources: I64, source_ends: I64, key: U64, weight: F64, order: I64, ends: I64, dense: I64,
    width: int, depth: int, cells: F64,
) -> None:  # fmt: skip
    """Cells of the rows that have them: the sums of cells and of single weights, compensated and rounded once.

    source float64[s, depth * width]; those of each row in `sources`, as `by_target`
    key uint64[m], weight float64[m]; the items of each row in `order`, as `by_target`
    dense int64[rows]: which of `cells` float64[rows with cells, depth * width] are the row's, -1 for none; zeroed
    """
    comp = np.empty(depth * width)
    for row in range(len(dense)):
        if dense[row] == NOWHERE:
            continue
        comp[:] = 0.0
        own = cells[dense[row]]
        for i in sources[source_ends[row] : source_ends[row + 1]]:
            for cell in range(len(own)):
                add_into(own, comp, cell, source[i, cell])
        for i in order[ends[row] : ends[row + 1]]:
            for line in range(depth):
                add_into(own, comp, _cell(key[i], line, width), weight[i])
        for cell in range(len(own)):
            own[cell] = folded(own[cell], comp[cell])


@kernel
def cell_estimates(cells: F64, row: I64, key: U64, width: int, depth: int) -> F64:
    """What is known of each key: the least of its cells; row int64[m] into cells float64[rows, depth * width]."""
    out = np.empty(len(key))
    for i in range(len(key)):
        least = np.inf
        for line in range(depth):
            least = min(least, cells[row[i], _cell(key[i], line, width)])
        out[i] = least
    return out
