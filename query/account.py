"""What answering a query took, and from where: by node of its plan and by tier."""

from dataclasses import dataclass, field

TIERS = ("summary", "head", "upstream")
"""In the order in which they are named."""


@dataclass
class Served:
    """One node by one tier."""

    steps: int = 0
    seconds: float = 0.0
    panes: int = 0
    groups: int = 0
    """Of all panes together, before they were merged."""
    samples: int = 0


@dataclass
class Account:
    """One query's; filled while it is answered."""

    seconds: float = 0.0
    samples: int = 0
    panes: int = 0
    groups: int = 0
    cached: int = 0
    """Steps that were taken from the result cache; who served them first is in `served`."""
    served: dict[tuple[int, str], Served] = field(default_factory=dict)
    """By the number of the plan's node, and tier."""
    why: dict[int, str] = field(default_factory=dict)
    """By node: why its aggregation did not serve the first step that it did not serve, or the head a leaf's."""

    def of(self, node: int, tier: str) -> Served:
        """The entry of a node and a tier, to be added to."""
        return self.served.setdefault((node, tier), Served())

    def tiers(self) -> tuple[str, ...]:
        """Those that served a step; one that was looked at in vain is none of them."""
        served = {tier for (_, tier), its in self.served.items() if its.steps}
        return tuple(tier for tier in TIERS if tier in served)

    def steps(self) -> dict[str, int]:
        """By tier, the steps that it served; a query of two parts has each step twice."""
        counted = dict.fromkeys(self.tiers(), 0)
        for (_, tier), served in self.served.items():
            if served.steps:
                counted[tier] += served.steps
        return counted
