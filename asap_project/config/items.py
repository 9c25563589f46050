"""The items of the two lists: what is scraped and what is kept."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from asap_project.config.units import DurationMs, duration_ms

_TARGET = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s/:@\[\]]+):([0-9]{1,5})")


def _target(text: str) -> str:
    match = _TARGET.fullmatch(text)
    if match is None or not 0 < int(match[2]) < 65536:
        raise ValueError("should be host:port")
    return text


def unique(items: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(items)) != len(items):
        raise ValueError("names one thing twice")
    return items


def _accumulator(text: str) -> str:
    from precompute.sketches.registry import canonical  # here: it brings numba, which most commands do without

    return canonical(text)


Accumulator = Annotated[str, AfterValidator(_accumulator)]
Target = Annotated[str, AfterValidator(_target)]
LabelName = Annotated[str, StringConstraints(min_length=1)]


class Scrape(BaseModel):
    """One job of scraping, named as in Prometheus."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    job: str = Field(min_length=1)
    targets: tuple[Target, ...] = Field(min_length=1)
    interval: DurationMs = Field(duration_ms("15s"), gt=0)
    timeout: DurationMs = Field(duration_ms("10s"), gt=0)
    metrics_path: str = Field("/metrics", pattern="^/")
    scheme: Literal["http", "https"] = "http"

    @model_validator(mode="after")
    def _answers_in_time(self) -> Self:
        if self.timeout > self.interval:
            raise ValueError("timeout should not be longer than interval")
        return self


class Aggregation(BaseModel):
    """An expression that is kept by group, as snapshots at each pane's end.

    Exactly one of `by`, `without` and `series` says how it is grouped. A width of None is window_size. With an
    `accuracy_sla`, accumulators named without parameters get those that keep errors within 1 - accuracy_sla.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    expr: str = Field(min_length=1)
    by: Annotated[tuple[LabelName, ...], AfterValidator(unique)] | None = None
    without: Annotated[tuple[LabelName, ...], AfterValidator(unique)] | None = None
    series: bool = False
    accumulators: Annotated[tuple[Accumulator, ...], AfterValidator(unique)] = Field(min_length=1)
    width: DurationMs | None = Field(None, gt=0)
    retention: DurationMs = Field(duration_ms("24h"), gt=0)
    accuracy_sla: float | None = Field(None, gt=0, lt=1)

    @model_validator(mode="after")
    def _is_grouped_one_way(self) -> Self:
        if (self.by is not None) + (self.without is not None) + self.series != 1:
            raise ValueError("should have exactly one of by, without and series: true")
        return self

    @model_validator(mode="after")
    def _is_accurate(self) -> Self:
        _unique(self.fitted())
        return self

    def fitted(self) -> tuple[str, ...]:
        """The accumulators, with parameters that keep to `accuracy_sla`. Raises ValueError where there are none."""
        if self.accuracy_sla is None:
            return self.accumulators
        from precompute.sketches.registry import fitted

        return tuple(fitted(name, self.accuracy_sla) for name in self.accumulators)
