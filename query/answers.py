"""What a query comes back with, before anything is written as JSON."""

from dataclasses import dataclass

from precompute.evaluate.values import Value
from precompute.samples import I64


@dataclass(frozen=True)
class Answer:
    """A value at every step and how it was made.

    times int64[s]: the steps, ms. kind: "instant" or "range". tiers: in order of use.
    bound: "exact", or what the estimates keep to.
    """

    value: Value
    times: I64
    kind: str
    tiers: tuple[str, ...]
    bound: str
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()


@dataclass(frozen=True)
class Forwarded:
    """An upstream's answer, passed through as it came."""

    status: int
    content_type: str
    body: bytes
