"""Reading a scraped page (prometheus.io/docs/instrumenting/exposition_formats, text format).

The grammar is prometheus_client's. It reads pages stripped of comments: with `# TYPE` in sight its parser
renames counters, which Prometheus does not.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import SupportsFloat

from prometheus_client.parser import text_string_to_metric_families

from ingest.errors import BadBody

_ESCAPE = re.compile(r"\\([n\\])")


@dataclass(frozen=True)
class Exposed:
    """One sample of a page."""

    name: str
    labels: dict[str, str]
    value: float
    t_ms: int | None
    """The time that the page itself gives, if it does."""


@dataclass(frozen=True)
class Page:
    """What one scrape returned."""

    samples: tuple[Exposed, ...]
    families: dict[str, tuple[str, str]]
    """(type, help) of each metric family that the comments describe."""


def parse_page(text: str) -> Page:
    """Raises BadBody for text that is no exposition."""
    return Page(tuple(_samples(text)), _families(text))


def _samples(text: str) -> list[Exposed]:
    page = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    try:
        return [
            Exposed(sample.name, sample.labels, float(sample.value), _milliseconds(sample.timestamp))
            for family in text_string_to_metric_families(page + "\n")
            for sample in family.samples
        ]
    except (ValueError, LookupError, OverflowError) as error:
        raise BadBody(f"not the text format: {error}") from error


def _families(text: str) -> dict[str, tuple[str, str]]:
    types, helps = dict(_comments(text, "TYPE")), dict(_comments(text, "HELP"))
    return {family: (types.get(family, "unknown"), helps.get(family, "")) for family in types | helps}


def _comments(text: str, keyword: str) -> Iterable[tuple[str, str]]:
    for line in text.split("\n"):
        words = line.split(None, 3)
        if len(words) == 4 and words[:2] == ["#", keyword]:
            yield words[2], _ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else "\\", words[3].strip())


def _milliseconds(timestamp: SupportsFloat | None) -> int | None:
    if timestamp is None:
        return None
    t_ms = round(float(timestamp) * 1000)
    if not -(2**63) <= t_ms < 2**63:
        raise ValueError(f"timestamp {timestamp} is out of range")
    return t_ms
