"""Lists of names, values, series and descriptions: ours, together with those of the upstream where there is one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from precompute.errors import TimedOut
from query.answers import Forwarded
from query.errors import UpstreamDown
from query.tiers.labelled import LabelledUpstream

TRUNCATED = "results truncated due to limit"


@dataclass(frozen=True)
class Asked:
    """One request of a catalogue endpoint, as the upstream shall hear it."""

    path: str
    parameters: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    timeout_ms: int


@dataclass(frozen=True)
class Theirs:
    """What the upstream has: its `data`, and its warnings or the reason why it has none."""

    data: Any
    warnings: tuple[str, ...] = ()


def ask(upstream: LabelledUpstream | None, asked: Asked, nothing: Any) -> Theirs | Forwarded:
    """The upstream's list; `nothing`, with a warning, when it does not answer; its own answer when it refuses."""
    if upstream is None:
        return Theirs(nothing)
    try:
        answer = upstream.get(asked.path, asked.parameters, asked.headers, asked.timeout_ms)
    except (UpstreamDown, TimedOut) as error:
        return Theirs(nothing, (f"{error}; what follows is only what was received here",))
    if answer.status != 200:
        return answer
    try:
        body = orjson.loads(answer.body)
        data, warnings = body["data"], tuple(map(str, body.get("warnings") or ()))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return Theirs(nothing, (f"the upstream {upstream.name} answered {asked.path} with no Prometheus answer",))
    return Theirs(data if isinstance(data, type(nothing)) else nothing, warnings)


def texts(ours: Iterable[str], theirs: Theirs, limit: int) -> tuple[list[str], tuple[str, ...]]:
    """Both lists of texts, sorted, and the warnings."""
    both = sorted({*ours, *(text for text in theirs.data if isinstance(text, str))})
    return _limited(both, theirs.warnings, limit)


def label_sets(
    ours: Iterable[tuple[tuple[str, str], ...]], theirs: Theirs, limit: int
) -> tuple[list[dict[str, str]], tuple[str, ...]]:
    """Both lists of label sets, sorted, and the warnings."""
    more = (tuple(sorted(one.items())) for one in theirs.data if isinstance(one, dict))
    cut, warnings = _limited(sorted({*ours, *more}), theirs.warnings, limit)
    return [dict(labels) for labels in cut], warnings


def families(
    ours: Mapping[str, list[dict[str, str]]], theirs: Theirs, limit: int | None, limit_per_metric: int | None
) -> dict[str, list[dict[str, str]]]:
    """Both sets of descriptions by metric family."""
    names = sorted({*ours, *theirs.data})
    both = {name: list(ours.get(name, ())) for name in names[:limit]}
    for name, described in both.items():
        described += [one for one in theirs.data.get(name, ()) if one not in described]
        del described[limit_per_metric or len(described) :]
    return both


def _limited(items: list[Any], warnings: tuple[str, ...], limit: int) -> tuple[list[Any], tuple[str, ...]]:
    if limit and len(items) > limit:
        return items[:limit], (*warnings, TRUNCATED)
    return items, warnings
