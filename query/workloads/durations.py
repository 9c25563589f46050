"""Durations as Prometheus and Grafana write them: `15s`, `1h30m`, `1d`."""

import re

_UNITS_MS = {
    "y": 31_536_000_000, "w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1,
}  # fmt: skip
_DURATION = re.compile("".join(rf"(?:([0-9]{{1,12}}){unit})?" for unit in _UNITS_MS))


def duration_ms(text: object) -> int | None:
    """Milliseconds; None for what is no duration longer than 0."""
    found = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        return None
    return sum(int(count or 0) * size for count, size in zip(found.groups(), _UNITS_MS.values(), strict=True)) or None
