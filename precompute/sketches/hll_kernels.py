"""HyperLogLog's registers and estimate.

Sources: P. Flajolet, É. Fusy, O. Gandouet, F. Meunier 2007, "HyperLogLog: the analysis of a near-optimal cardinality
estimation algorithm"; O. Ertl 2017, "New cardinality estimation algorithms for HyperLogLog sketches", section 4,
whose estimator needs no tables and no thresholds. Hashes have 64 bits, so there is no upper range to correct.
"""

import math

import numpy as np

from precompute.kernels import inlined, kernel
from precompute.samples import F64, I64, U8, U64
from precompute.sketches.keyed import NOWHERE, mixed


@kernel
def fill_registers(key: U64, order: I64, ends: I64, dense: I64, p: int, registers: U8) -> None:
    """Take keys into registers uint8[rows with registers, 2^p].

    order, ends: the keys of each row, as `by_target`; dense int64[rows]: which registers are the row's, -1 for none.
    """
    for row in range(len(dense)):
        if dense[row] != NOWHERE:
            own = registers[dense[row]]
            for at in range(ends[row], ends[row + 1]):
                _take(own, key[order[at]], p)


@inlined
def _take(own: U8, key: np.uint64, p: int) -> None:
    """The first p bits of the hash name the register; its value is the place of the lowest 1 among the others."""
    h = mixed(key)
    rest = (h & ((np.uint64(1) << np.uint64(64 - p)) - np.uint64(1))) | (np.uint64(1) << np.uint64(64 - p))
    lowest = np.float64(rest & (~rest + np.uint64(1)))
    rank = np.uint8((lowest.view(np.int64) >> 52) - 1022)
    slot = np.int64(h >> np.uint64(64 - p))
    if rank > own[slot]:
        own[slot] = rank


@kernel
def merge_registers(source: U8, targets: I64, registers: U8) -> None:
    """Merge registers uint8[s, 2^p] into those of `targets` int64[s]."""
    for i in range(len(targets)):
        own, other = registers[targets[i]], source[i]
        for slot in range(len(own)):
            own[slot] = max(own[slot], other[slot])


@kernel
def estimates(registers: U8, p: int) -> F64:
    """How many distinct keys each row of registers uint8[m, 2^p] has seen; float64[m]. Ertl's algorithm 6."""
    m, q = 1 << p, 64 - p
    out, histogram = np.empty(len(registers)), np.empty(q + 2, np.int64)
    for row in range(len(registers)):
        histogram[:] = 0
        for slot in range(m):
            histogram[registers[row, slot]] += 1
        z = m * _tau(1.0 - histogram[q + 1] / m)
        for k in range(q, 0, -1):
            z = 0.5 * (z + histogram[k])
        z += m * _sigma(histogram[0] / m)
        out[row] = m / (2 * math.log(2.0)) * (m / z)
    return out


@kernel
def _sigma(x: float) -> float:
    if x == 1.0:
        return np.inf
    y, z, before = 1.0, x, -1.0
    while z != before:
        x *= x
        before = z
        z += x * y
        y += y
    return z


@kernel
def _tau(x: float) -> float:
    if x == 0.0 or x == 1.0:
        return 0.0
    y, z, before = 1.0, 1.0 - x, -1.0
    while z != before:
        x = math.sqrt(x)
        before = z
        y *= 0.5
        z -= (1.0 - x) ** 2 * y
    return z / 3
