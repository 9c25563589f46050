"""What a query comes back with, before anything is written as JSON."""

from dataclasses import dataclass

from precompute.evaluate.trace import Trace
from precompute.evaluate.values import Value
from precompute.samples import I64
from query.account import Account
from query.plan import Plan
from query.tiers.summary import Steps


@dataclass(frozen=True)
class Told:
    """How a query was answered."""

    text: str
    plan: Plan | None
    """None where it cannot be planned here."""
    steps: Steps
    account: Account
    trace: Trace | None
    why: str
    """Why the upstream answered the whole of it; "" where it did not."""


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
    told: Told | None = None


@dataclass(frozen=True)
class Forwarded:
    """An upstream's answer, passed through as it came."""

    status: int
    content_type: str
    body: bytes
    told: Told | None = None
