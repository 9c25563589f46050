"""What an expression is evaluated against, and what an evaluation leaves beside its value."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from precompute.evaluate.expr import Call, Expr, Selector
from precompute.evaluate.limits import Budget
from precompute.evaluate.trace import Trace
from precompute.evaluate.values import Matrix, Scalar, Value, Vector
from precompute.samples import F64, I64

WARNING, INFO = "PromQL warning: ", "PromQL info: "


class Notes:
    """The warnings and infos of one query, each text once, in order of first sight.

    Texts are Prometheus' own (util/annotations), prefix included, without positions.
    """

    def __init__(self) -> None:
        self._warnings: dict[str, None] = {}
        self._infos: dict[str, None] = {}

    def warn(self, text: str) -> None:
        """Note a warning; `text` is without its prefix."""
        self._warnings[WARNING + text] = None

    def inform(self, text: str) -> None:
        """Note an info; `text` is without its prefix."""
        self._infos[INFO + text] = None

    def pass_on(self, warnings: Sequence[str], infos: Sequence[str]) -> None:
        """Note what another system noted, as it wrote it."""
        self._warnings.update(dict.fromkeys(warnings))
        self._infos.update(dict.fromkeys(infos))

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    @property
    def infos(self) -> tuple[str, ...]:
        return tuple(self._infos)

    def shown(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Warnings and infos as Prometheus' API gives them: ten of each, and how many there are beside."""
        return _first_ten(self.warnings, "warning"), _first_ten(self.infos, "info")


def _first_ten(texts: tuple[str, ...], kind: str) -> tuple[str, ...]:
    left = len(texts) - 10
    return (*texts[:10], f"{left} more {kind} annotations omitted") if left > 0 else texts


@dataclass(frozen=True)
class Features:
    """What a default Prometheus 3 has behind flags."""

    delayed_name_removal: bool = False
    """Metric names go at the end of the query, so that what stands around a function still sees them."""
    experimental_functions: bool = False
    """Functions, aggregation operators and fill modifiers that Prometheus calls experimental."""


class Source(Protocol):
    """Where selectors are read from. Rows come in order of shard and label hash, none without a value."""

    def spread(self, work: Callable[[int, int], None], count: int) -> None:
        """Does `work(begin, end)` for stretches of range(count), on as many threads as are allowed; returns when done.

        Never to be called inside of such work.
        """

    def series(self, selector: Selector, budget: Budget) -> int:
        """How many series the selector may have, whatever the times."""

    def instant(self, selector: Selector, times: I64, lookback_ms: int, budget: Budget) -> Vector:
        """The selector at the given times (int64[s], ascending, ms); its offset and @ are already in them."""

    def sample_times(self, selector: Selector, times: I64, lookback_ms: int, budget: Budget) -> Vector:
        """As `instant`, but each value is the time of the sample, in seconds."""

    def range(
        self, function: str, selector: Selector, range_ms: int, times: I64, parameters: F64, budget: Budget
    ) -> Vector:
        """A range function of the selector over `(time - range, time]`; metric names are kept.

        parameters   float64[2, s], as in kernels.selectors.range_values
        """

    def samples(self, selector: Selector, range_ms: int, time_ms: int, budget: Budget) -> Matrix:
        """The samples in `(time - range, time]` themselves."""


@dataclass(frozen=True)
class Evaluation:
    """What an expression is evaluated against."""

    source: Source
    times: I64
    """Steps, int64[s], ascending, ms."""
    lookback_ms: int
    budget: Budget
    start_ms: int
    end_ms: int
    """What `@ start()` and `@ end()` mean."""
    known: Mapping[Expr, Vector | Scalar] | None = None
    """Sub-expressions whose values are already there, at the same steps."""
    notes: Notes = field(default_factory=Notes)
    features: Features = Features()
    step_ms: int = 0
    """Distance of the query's steps; 0 for an instant query."""
    evaluation_interval_ms: int = 60_000
    """The step of subqueries that name none."""
    trace: Trace | None = None
    """Told what each sub-expression takes."""

    @property
    def of_many_steps(self) -> bool:
        """Whether the query has several steps, be it asked here at one of them."""
        return len(self.times) > 1 or self.start_ms != self.end_ms


Evaluate = Callable[[Expr, Evaluation], Value]
"""The evaluator, handed to the rules of functions, which evaluate their own arguments."""

Rule = Callable[[Call, Evaluation, Evaluate], Value]
"""The meaning of one function."""
