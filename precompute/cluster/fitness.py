"""Whether a Redis server is fit for what it is to hold, from what it says of itself (INFO).

    refused   its version lacks what the scripts need; it would forget samples rather than refuse them
    a warning it would lose acknowledged samples with a restart; it is full before the log is; Celery's forgets ticks
    noted     it does not say
"""

from collections.abc import Mapping
from dataclasses import dataclass

OLDEST = 7
"""Major version: scripts that say what they need in their first line."""

_ROOM = 1.1
_NOT_SAID = "it does not say how it is set up (INFO); docs/cluster.md says what it needs"


@dataclass(frozen=True)
class Judgement:
    """Sentences, each with its remedy."""

    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def judge_log(info: Mapping[str, str], held_bytes: int) -> Judgement:
    """A server of the log. held_bytes: most that its shards' logs and summaries may take together."""
    if not info:
        return Judgement(notes=(_NOT_SAID,))
    refusals = (_version(info), _forgets(info))
    warnings = (_loses(info), _is_small(info, held_bytes))
    return Judgement(tuple(filter(None, refusals)), tuple(filter(None, warnings)))


def judge_broker(info: Mapping[str, str]) -> Judgement:
    """Celery's server."""
    if not info:
        return Judgement(notes=(_NOT_SAID,))
    policy = info.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return Judgement()
    return Judgement(warnings=(f"maxmemory-policy {policy} forgets ticks when it is full: set noeviction",))


def _version(info: Mapping[str, str]) -> str:
    version = info.get("redis_version", "")
    major = version.partition(".")[0]
    return f"it is of version {version}: {OLDEST}.0 is needed" if major.isdigit() and int(major) < OLDEST else ""


def _forgets(info: Mapping[str, str]) -> str:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return ""
    return f"maxmemory-policy {policy} would forget samples when it is full: set maxmemory-policy noeviction"


def _loses(info: Mapping[str, str]) -> str:
    if info.get("aof_enabled", "1") != "0":
        return ""
    return "appendonly no loses acknowledged samples with a restart: set appendonly yes and appendfsync everysec"


def _is_small(info: Mapping[str, str], held_bytes: int) -> str:
    most, needed = int(info.get("maxmemory", "0")), int(_ROOM * held_bytes)
    if not 0 < most < needed:
        return ""
    return (
        f"maxmemory {most} is less than the {needed} bytes that its part of log.max_bytes and redis.max_summary_bytes "
        "may come to: raise it, or lower these"
    )
