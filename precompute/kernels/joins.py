"""Kernels of vector matching: what meets at which step, and rows of one key made one.

Common shapes: `key` int32[n], numbers below `keys`; `present` bool[n, s].
"""

import numpy as np

from precompute.kernels import bare, kernel


@kernel
def there(key, present, keys):
    """Whether some row of each key is present, bool[keys, s]."""
    n, steps = present.shape
    out = np.zeros((keys, steps), np.bool_)
    for i in range(n):
        k = key[i]
        for s in range(steps):
            out[k, s] |= present[i, s]
    return out


@kernel
def first_clash(key, present, keys):
    """The first two rows of one key that are present at one step, by step and then by row; (-1, -1) if none are."""
    n, steps = present.shape
    seen = np.empty(keys, np.int64)
    for s in range(steps):
        seen[:] = -1
        for i in range(n):
            if present[i, s]:
                if seen[key[i]] >= 0:
                    return seen[key[i]], i
                seen[key[i]] = i
    return -1, -1


@kernel
def clash(key, present, keys):
    """Whether two rows of one key are present at one step."""
    n, steps = present.shape
    seen = np.zeros((keys, steps), np.bool_)
    for i in range(n):
        k = key[i]
        for s in range(steps):
            if present[i, s]:
                if seen[k, s]:
                    return True
                seen[k, s] = True
    return False


@kernel
def merged(key, values, present, keys):
    """Rows of one key as one row: values float64[keys, s] and present; of two present at one step the later one."""
    n, steps = present.shape
    out = np.zeros((keys, steps), np.float64)
    held = np.zeros((keys, steps), np.bool_)
    for i in range(n):
        k = key[i]
        for s in range(steps):
            if present[i, s]:
                out[k, s] = values[i, s]
                held[k, s] = True
    return out, held


@bare
def place(row, step, values, present, out, held):
    """Put what is present into rows `row` int32[n] and columns `step` int64[s] of out float64 and held bool."""
    for i in range(len(row)):
        for s in range(len(step)):
            if present[i, s]:
                out[row[i], step[s]] = values[i, s]
                held[row[i], step[s]] = True
