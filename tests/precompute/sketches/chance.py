"""How often a bound that holds with a probability may be missed before the bound is not believed."""

import math


def allowed_misses(trials: int, confidence: float, doubt: float = 1e-6) -> int:
    """The least number that binomially many misses, each with 1 - confidence, pass with probability below `doubt`."""
    miss = 1 - confidence
    below = 0.0
    for misses in range(trials + 1):
        below += math.exp(
            math.lgamma(trials + 1) - math.lgamma(misses + 1) - math.lgamma(trials - misses + 1)
            + misses * math.log(miss) + (trials - misses) * math.log1p(-miss)
        )  # fmt: skip
        if below > 1 - doubt:
            return misses
    return trials
