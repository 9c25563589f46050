"""Templates with groups of a regular expression in them, by the rules of Go's Regexp.Expand."""

import re
from typing import Any

_REFERENCE = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})")


class Template:
    """`$1`, `${1}`, `$name`, `${name}` stand for groups, `$$` for a dollar; any other dollar is itself.

    A name is the longest run of letters, digits and underscores. Groups that are not there, or took no part, are empty.
    """

    def __init__(self, text: str, regex: Any) -> None:
        self._pieces: list[str | int] = []
        done = 0
        for found in _REFERENCE.finditer(text):
            self._pieces.append(text[done : found.start()])
            dollar, plain, braced = found.groups()
            self._pieces.append("$" if dollar else _group(plain or braced, regex))
            done = found.end()
        self._pieces.append(text[done:])

    def pieces(self, match: Any) -> list[str]:
        """The text for one match, in pieces: how long it gets can be seen before it is made."""
        return [piece if isinstance(piece, str) else match.group(piece) or "" for piece in self._pieces]


def _group(name: str, regex: Any) -> int | str:
    """The number of a group; an empty text for one that the expression does not have."""
    if name.isdecimal() and name.isascii():
        leading_zero = len(name) > 1 and name[0] == "0"
        return int(name) if not leading_zero and len(name) < 9 and int(name) <= regex.groups else ""
    return int(regex.groupindex.get(name, 0)) or ""
