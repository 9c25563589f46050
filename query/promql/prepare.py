"""Before the parser sees a query: its size is bounded, and its literals are put aside.

The parser recurses without a bound; judges regular expressions by rules that are not RE2's; decodes `\\xff` as a
character instead of a byte; keeps some label names for itself; panics at durations beyond its own, and its times
fail before 1970. So strings, matching operators and `@` times are replaced by references into a table, out of
which the exact values are put back into the parsed tree.
"""

import math
import re
from dataclasses import dataclass, field

from precompute.errors import BadExpression, LimitExceeded
from query.promql.tokens import WORD_OPERATORS, Token, depth_of, is_text, number, printable, tokens_of, unquote

LONGEST_S = ((1 << 63) - 1) / 1e9
"""Prometheus' durations are int64 nanoseconds."""

_LATEST_S = 1 << 52
_MATCHING = frozenset(("=", "!=", "=~", "!~"))
_NOT_OPERANDS = WORD_OPERATORS | {"bool", "on", "ignoring", "by", "without", "group_left", "group_right"}
_ZERO_DURATION = re.compile(r"0+(?:\.0*)?(?:ms|[smhdwy])?", re.ASCII)
_DURATION_PART = re.compile(r"([0-9]+)(ms|[smhdwy])", re.ASCII)
_DURATION = re.compile(f"(?:{_DURATION_PART.pattern})+", re.ASCII)
_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_PLAIN_NUMBER = re.compile(r"[0-9.]+(?:[eE][+-]?[0-9]+)?|0[xX][0-9a-fA-F]+|inf|nan", re.ASCII | re.IGNORECASE)
_REFERENCE = re.compile("\ue000([0-9]+)\ue001")


@dataclass(frozen=True)
class Prepared:
    """A text for the parser, and what its references stand for."""

    text: str
    strings: list[tuple[str, str]] = field(default_factory=list)
    """Per string literal and label name in braces: the matching operator before it ("" without one), its value."""
    times_ms: list[int] = field(default_factory=list)
    """Per `@` with a number: the time."""

    def string(self, name: str) -> tuple[str, str]:
        """Operator and value of a string as the parser returned it; a plain name stands for itself.

        Raises BadExpression for what is no UTF-8.
        """
        op, value = self.raw(name)
        if not is_text(value):
            raise BadExpression("parse error: a string literal is not valid UTF-8")
        return op, value

    def raw(self, name: str) -> tuple[str, str]:
        """As `string`, whatever the bytes are."""
        reference = _REFERENCE.fullmatch(name)
        known = reference is not None and int(reference[1]) < len(self.strings)
        return self.strings[int(reference[1])] if reference and known else ("", name)

    def readable(self, message: str) -> str:
        """A message of the parser with the user's strings put back."""
        return _REFERENCE.sub(lambda m: printable(self.raw(m[0])[1]), message)


def prepare(text: str, max_depth: int, max_length: int) -> Prepared:
    """Raises LimitExceeded for a text too long or too deep, BadExpression for broken literals."""
    if len(text) > max_length:
        raise LimitExceeded(f"the query has {len(text)} characters; the limit is {max_length}")
    tokens = tokens_of(text)
    if depth_of(tokens) > max_depth:
        raise LimitExceeded(f"the query is nested deeper than {max_depth} levels")
    return _Rewriting(tokens).done()


class _Rewriting:
    """One pass over the tokens of a text."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._strings: list[tuple[str, str]] = []
        self._times_ms: list[int] = []

    def done(self) -> Prepared:
        out, at = [], 0
        braces = brackets = 0
        while at < len(self._tokens):
            text = self._tokens[at].text
            braces += (text == "{") - (text == "}")
            brackets += (text == "[") - (text == "]")
            written, taken = self._in_braces(at) if braces > 0 else self._outside(at, brackets > 0)
            out.append(written)
            at += taken
        return Prepared(" ".join(out), self._strings, self._times_ms)

    def _in_braces(self, at: int) -> tuple[str, int]:
        """What to write for the token at `at`, and how many tokens that stands for."""
        kind, text = self._tokens[at]
        following = self._text(at + 1)
        if kind == "string":
            return self._reference("", unquote(text)), 1
        if kind == "word" and following in _MATCHING and ":" not in text:
            return self._reference("", text), 1
        if text in _MATCHING and self._kind(at + 1) == "string":
            # with its operator: whether a matcher is empty is judged by the real value, not by the reference
            return f"={self._reference(text, unquote(following))}", 2
        return text, 1

    def _outside(self, at: int, in_brackets: bool) -> tuple[str, int]:
        kind, text = self._tokens[at]
        if kind == "string":
            return self._reference("", unquote(text)), 1
        if text == "@" and (count := self._number_at(at + 1)):
            self._times_ms.append(_time_ms("".join(self._text(k) for k in range(at + 1, at + 1 + count))))
            return f"@ {len(self._times_ms) - 1}", 1 + count
        if text.lower() == "offset" and (count := self._number_at(at + 1)):
            shift = self._text(at + count)
            _check_duration(shift)
            # Prometheus 3 takes a shift by nothing, the parser does not
            nothing = self._is_operand(at - 1) and _ZERO_DURATION.fullmatch(shift)
            return ("", 1 + count) if nothing else (text, 1)
        if in_brackets:
            _check_duration(text)
        return text, 1

    def _reference(self, op: str, value: str) -> str:
        self._strings.append((op, value))
        return f'"\ue000{len(self._strings) - 1}\ue001"'

    def _text(self, at: int) -> str:
        return self._tokens[at].text if 0 <= at < len(self._tokens) else ""

    def _kind(self, at: int) -> str:
        return self._tokens[at].kind if 0 <= at < len(self._tokens) else ""

    def _number_at(self, at: int) -> int:
        """How many tokens from `at` on are one number with an optional sign; 0 if they are none."""
        signed = self._text(at) in ("+", "-")
        is_number = self._kind(at + signed) == "number" or self._text(at + signed).lower() in ("inf", "nan")
        return 1 + signed if is_number else 0

    def _is_operand(self, at: int) -> bool:
        text = self._text(at)
        return text in (")", "]", "}") or (self._kind(at) == "word" and text.lower() not in _NOT_OPERANDS)


def _check_duration(text: str) -> None:
    if _PLAIN_NUMBER.fullmatch(text) and not number(text) <= LONGEST_S:
        raise BadExpression("parse error: duration out of range")


def _time_ms(text: str) -> int:
    seconds = _seconds(text)
    if not abs(seconds) < _LATEST_S:
        raise BadExpression(f"parse error: timestamp out of bounds for @ modifier: {seconds:f}")
    return int(math.copysign(math.floor(abs(seconds * 1000) + 0.5), seconds))


def _seconds(text: str) -> float:
    """A number of seconds or a duration, either with a sign."""
    digits = text.lstrip("+-")
    if not _DURATION.fullmatch(digits):
        return number(text)
    size = sum(int(count) * _UNITS_S[unit] for count, unit in _DURATION_PART.findall(digits))
    return -size if text[0] == "-" else size
