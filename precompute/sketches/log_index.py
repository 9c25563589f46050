"""From a float64 to its log bucket and back, in integer arithmetic.

Buckets of growing width, as in DDSketch (Masson, Rim and Lee 2019, VLDB 12, section 2): each octave [2^e, 2^(e+1))
is cut into `per_octave` parts of equal ratio. Keys rise with the value over the whole real line:

    NAN < MINUS_INF < -TOP .. -1 < 0 (zero) < 1 .. TOP < PLUS_INF

Traps that this avoids:

- A logarithm's last bit differs between machines, so values on an edge would change buckets. Here an edge is a
  constant, rounded to 40 bits of mantissa, and a value is compared with it bit by bit.
- The ratio is that of the next whole number of buckets per octave, so alpha has a margin (1e-4 of it and more)
  for the roundings of PromQL's interpolation.
- Subnormal floats have few bits, and no bucket of two of them has a middle. Those below 2^16 units of the
  smallest float have a bucket each; above, rounding to a whole unit stays inside the margin.
"""

import math
from dataclasses import dataclass

import numpy as np

from precompute.samples import F64, I64
from precompute.sketches.log_kernels import FIRST_EXPONENT, SLICE_BITS, UNITS


@dataclass(frozen=True)
class LogIndex:
    """Tables for one alpha; `log_index` makes them."""

    per_octave: int
    top: int
    """Largest key of a finite value."""
    guess: I64
    """First part that a mantissa's leading SLICE_BITS bits can lie in; int64[2^SLICE_BITS]."""
    edge: I64
    """Lower edges of the parts as mantissa bits, and one that is never reached; int64[per_octave + 1]."""
    middle: F64
    """The value in [1, 2) whose largest relative distance from its part is smallest; float64[per_octave]."""

    @property
    def nan(self) -> int:
        return -self.top - 2

    @property
    def minus_inf(self) -> int:
        return -self.top - 1

    @property
    def plus_inf(self) -> int:
        return self.top + 1


def log_index(alpha: float) -> LogIndex:
    """The index whose bucket middles lie within `alpha` (0.001 to 0.1) of every value in their bucket."""
    if not 0.001 <= alpha <= 0.1:
        raise ValueError(f"alpha {alpha} is not between 0.001 and 0.1")
    per_octave = math.ceil(math.log(2) / math.log1p(2 * alpha / (1 - alpha)) * (1 + 2e-4))
    steps = [math.floor((2 ** (j / per_octave) - 1) * 2**40) << 12 for j in range(per_octave)]
    edge = np.array([*steps, 1 << 52], np.int64)
    slices = np.arange(1 << SLICE_BITS, dtype=np.int64) << (52 - SLICE_BITS)
    guess = np.searchsorted(edge, slices, side="right") - 1
    low, high = 1 + edge[:-1] / 2**52, 1 + edge[1:] / 2**52
    top = UNITS + (1023 - FIRST_EXPONENT + 1) * per_octave - 1
    return LogIndex(per_octave, top, guess.astype(np.int64), edge, 2 * low * high / (low + high))
