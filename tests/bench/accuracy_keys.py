"""What is claimed of counts and weights of keys.

A draw's values are its keys: bit by bit for distinct counts, as whole numbers where keys should come again. Each draw
turns them into other keys, so that draws meet independent hashes.
"""

import hashlib

import numpy as np

from precompute.samples import F64, U64
from precompute.sketches.base import State
from precompute.sketches.columns import size_bytes
from precompute.sketches.registry import accumulator
from tests.bench.accuracy_claim import Claim, Trial
from tests.precompute.sketches.one_row import in_parts, weighed

KEYS, RANKS = 50, 10


def distinct(name: str) -> Claim:
    """The number of distinct values."""
    bound = accumulator(name).answers["distinct"]

    def measure(values: F64, parts: int) -> Trial:
        keys = _salted(values.view(np.uint64), values)
        state = in_parts(accumulator(name), weighed(keys), parts)
        errors = np.abs(accumulator(name).estimate(state, "distinct") / len(np.unique(keys)) - 1)
        return Trial(errors, errors <= bound.size, size_bytes(state))

    return Claim(name, "distinct", bound, "of the right number", measure)


def weight(name: str) -> Claim:
    """How often each value comes, as a whole number: of KEYS of them, from the most frequent to the least."""
    bound = accumulator(name).answers["weight"]

    def measure(values: F64, parts: int) -> Trial:
        state, keys, weights = _weighed(name, values, parts)
        asked = np.linspace(0, len(keys) - 1, KEYS).astype(np.int64)
        found = np.array([accumulator(name).estimate(state, "weight", key)[0] for key in keys[asked]])
        errors = np.abs(found - weights[asked]) / len(values)
        return Trial(errors, errors <= bound.size + 1e-12, size_bytes(state))

    return Claim(name, "weight", bound, "of the total weight", measure)


def topk(name: str) -> Claim:
    """How often each of the RANKS most frequent values comes, as a whole number."""
    bound = accumulator(name).answers["topk"]

    def measure(values: F64, parts: int) -> Trial:
        state, _, weights = _weighed(name, values, parts)
        found = np.array([accumulator(name).estimate(state, "topk", rank)[0] for rank in range(1, RANKS + 1)])
        right = np.full(RANKS, np.nan)
        right[: len(weights)] = weights[:RANKS]
        errors = np.where(np.isnan(right), 0.0, np.abs(found - right) / len(values))
        return Trial(errors, errors <= bound.size + 1e-12, size_bytes(state))

    return Claim(name, "topk", bound, "of the total weight", measure)


def _weighed(name: str, values: F64, parts: int) -> tuple[State, U64, F64]:
    """The State; distinct keys, and how often each comes, the most frequent first."""
    whole = np.floor(np.clip(values, -9e18, 9e18)).astype(np.int64).view(np.uint64)
    keys = _salted(whole, values)
    distinct_keys, weights = np.unique(keys, return_counts=True)
    order = np.argsort(-weights, kind="stable")
    return in_parts(accumulator(name), weighed(keys), parts), distinct_keys[order], weights[order].astype(np.float64)


def _salted(keys: U64, values: F64) -> U64:
    """Other keys in each draw."""
    salt = hashlib.blake2b(values.tobytes(), digest_size=8).digest()
    return keys ^ np.frombuffer(salt, np.uint64)[0]
