"""A planned query under way."""

from collections.abc import Mapping
from dataclasses import dataclass

from precompute.evaluate.context import Evaluation
from query.account import Account
from query.plan import Plan
from query.tiers.summary import Steps


@dataclass(frozen=True)
class Asking:
    """What is asked, against what, for whom; and the account of what it takes."""

    plan: Plan
    at: Evaluation
    headers: Mapping[str, str]
    """The caller's."""
    account: Account
    cached: bool
    """Whether steps answered before may be taken from the result cache."""

    @property
    def steps(self) -> Steps:
        return Steps(self.at.times, self.at.start_ms, self.at.end_ms, self.at.step_ms)
