"""Right PromQL that promql-parser 0.12 cannot parse, told by its words, so that the feature can be named."""

import re

_CALCULATED = r"\[[^\]]*[-+*/%^(][^\]]*\]|\boffset\s*[-+]?\s*(?:\(|[a-z_]+\s*\()"
_SYNTAX = (
    ("anchored and smoothed selectors", re.compile(r"\b(?:anchored|smoothed)\b", re.IGNORECASE)),
    ("histogram trim operators", re.compile(r"[<>]\s*/")),
    ("arithmetic of durations", re.compile(_CALCULATED, re.IGNORECASE)),
)


def missing_syntax(text: str) -> str:
    """The feature that a text which does not parse asks for; empty if there is none. Its strings are taken out."""
    return next((name for name, pattern in _SYNTAX if pattern.search(text)), "")
