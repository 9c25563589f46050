"""What a script may ask for that cannot be had here, by name."""

import re

NATIVE_HISTOGRAMS = "native histograms"
START_TIMESTAMPS = "start timestamps"
_CALCULATED = r"\[[^\]]*[-+*/%^(][^\]]*\]|\boffset\s*[-+]?\s*(?:\(|[a-z_]+\s*\()"
_SYNTAX = (
    ("anchored and smoothed selectors", re.compile(r"\b(?:anchored|smoothed)\b")),
    ("histogram trim operators", re.compile(r"</|>/")),
    ("label selectors of info()", re.compile(r"\binfo\s*\(.*\{")),
    ("arithmetic of durations", re.compile(_CALCULATED, re.IGNORECASE)),
)


def missing_syntax(text: str) -> str:
    """The feature that a text asks for which promql-parser cannot parse; empty if there is none."""
    return next((name for name, pattern in _SYNTAX if pattern.search(text)), "")
