"""What a run has found, system by system."""

from dataclasses import dataclass, field

from tests.bench.check import Deviation
from tests.bench.data import Dataset
from tests.bench.measure import Load, Timing


@dataclass(frozen=True)
class Answered:
    """A query's name, how fast it was and how right."""

    name: str
    timing: Timing
    deviation: Deviation


@dataclass(frozen=True)
class Result:
    """One system.

    disk_bytes: its data folder after the load of one sample a request, stopped in order.
    served_s: per live pane the seconds from its seal to its summary; ASAP's alone.
    """

    title: str
    version: str
    options: str
    one: Load
    twenty: Load
    answers: tuple[Answered, ...]
    disk_bytes: int
    served_s: tuple[float, ...] = ()

    def answer(self, name: str, tier: str) -> Answered | None:
        return next((a for a in self.answers if (a.name, a.timing.tier) == (name, tier)), None)


@dataclass(frozen=True)
class Run:
    """All systems on one dataset."""

    scale: str
    data: Dataset
    begun: str
    """Date, UTC."""
    results: tuple[Result, ...] = field(default=())

    def result(self, title: str) -> Result | None:
        return next((r for r in self.results if r.title == title), None)

    @property
    def wrong(self) -> list[str]:
        """Answers that are outside their bound."""
        return [
            f"{result.title}: {answer.name} {answer.timing.tier}".strip()
            for result in self.results
            for answer in result.answers
            if not answer.deviation.is_right
        ]
