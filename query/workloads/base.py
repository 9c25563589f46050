"""Workloads: queries that are asked again and again, as files of other systems tell of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from precompute.planner.demand import Asking

DEFAULT_REPETITION_S = 60.0
"""Between evaluations of what does not say how often it is asked: Prometheus' evaluation_interval."""


class WorkloadError(Exception):
    """A file that cannot be read as a workload; its text names the file and what is wrong."""


@dataclass(frozen=True)
class Zooms:
    """What a dashboard's steps are, and what it fills in for the intervals that follow them.

    window_ms is the pane width, scrape_ms the scrape interval, steps_ms the steps of its zooms, the finest first.
    """

    window_ms: int
    scrape_ms: int
    steps_ms: tuple[int, ...]


@dataclass(frozen=True)
class Query:
    """A query in one form, or in one for each step where its ranges follow the zoom: (step_ms, text), the finest first.

    A step of 0: asked at any time.
    """

    forms: tuple[tuple[int, str], ...]
    asking: Asking


@dataclass(frozen=True)
class Workload:
    """The queries of a file, and what it says of the sketches to use."""

    queries: tuple[Query, ...]
    quantile: str = ""
    """The accumulator to take quantiles from; empty: what the planner takes."""
    labels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """All labels of metrics, by the metrics' names, as far as the file tells."""
    notes: tuple[str, ...] = field(default=())
    """What of the file was not read, and why."""


def shown(value: Any) -> str:
    """A value as a message shows it; of what is no plain value only its type, since that may be huge."""
    return repr(value)[:60] if isinstance(value, (str, int, float)) else type(value).__name__


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """The value, which must be a mapping. Raises WorkloadError."""
    if not isinstance(value, dict):
        raise WorkloadError(f"{what} should be a mapping, not {type(value).__name__}")
    return value


def items(value: Any, what: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The mappings of a list, with what to call each; nothing for what is not there. Raises WorkloadError."""
    if value is None:
        return
    if not isinstance(value, list):
        raise WorkloadError(f"{what} should be a list, not {type(value).__name__}")
    for place, item in enumerate(value):
        yield f"{what}[{place}]", mapping(item, f"{what}[{place}]")


def number(value: Any, what: str) -> float:
    """The value, which must be a positive number. Raises WorkloadError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e15:
        raise WorkloadError(f"{what} should be a number above 0, not {shown(value)}")
    return float(value)


def text_of(value: Any, what: str) -> str:
    """The value, which must be a string. Raises WorkloadError."""
    if not isinstance(value, str):
        raise WorkloadError(f"{what} should be a string, not {type(value).__name__}")
    return value


def per_hour(every_s: float) -> float:
    """Evaluations in an hour of what is asked so often."""
    return 3600 / every_s
