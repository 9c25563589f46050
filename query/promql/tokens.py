"""PromQL's tokens, as far as bounds and literals need them.

A superset of PromQL: every text has tokens, and whether they make sense is for the parser to say. Strings,
comments and numbers follow Prometheus' lexer, string values Go's rules.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from precompute.errors import BadExpression

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+|\#[^\r\n]*)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+|[0-9a-zA-Z_.]*))
    |(?P<word>:?[A-Za-z_][A-Za-z0-9_:]*)
    |(?P<op>=~|!~|==|!=|<=|>=|[-+*/%^<>=])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
WORD_OPERATORS = frozenset(("and", "or", "unless", "atan2"))
_ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "'": 39, '"': 34}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


class Token(NamedTuple):
    """kind: string, number, word, op or other."""

    kind: str
    text: str


def tokens_of(text: str) -> list[Token]:
    """All tokens but blanks and comments."""
    return [Token(m.lastgroup or "", m[0]) for m in _TOKEN.finditer(text) if m.lastgroup != "blank"]


@dataclass
class _Level:
    """What stands between two brackets: operators and the deepest bracket since the last comma, and before it."""

    operators: int = 0
    inside: int = 0
    argument: int = 0

    def depth(self) -> int:
        return max(self.argument, self.operators + self.inside)

    def with_inside(self, inner: "_Level") -> "_Level":
        return _Level(self.operators, max(self.inside, 1 + inner.depth()), self.argument)


def depth_of(tokens: list[Token]) -> int:
    """A bound on the depth of the text's tree: a bracket or an operator is a level each."""
    level = _Level()
    outer: list[_Level] = []
    for kind, text in tokens:
        if kind == "other" and text in "([{":
            outer.append(level)
            level = _Level()
        elif kind == "other" and text in ")]}" and outer:
            level = outer.pop().with_inside(level)
        elif text == ",":
            level = _Level(argument=level.depth())
        elif kind == "op" or (kind == "word" and text.lower() in WORD_OPERATORS):
            level.operators += 1
    while outer:
        level = outer.pop().with_inside(level)
    return level.depth()


def number(text: str) -> float:
    """A number literal as Prometheus reads it: decimal, hexadecimal, or octal with a leading zero."""
    sign, digits = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    try:
        if digits[:2].lower() == "0x":
            return float(sign * int(digits, 16))
        if len(digits) > 1 and digits[0] == "0" and digits.isdigit() and not set("89") & set(digits):
            return float(sign * int(digits, 8))
        return sign * float(digits)
    except (ValueError, OverflowError):
        raise BadExpression(f'parse error: bad number or duration syntax: "{text}"') from None


def unquote(literal: str) -> str:
    """The value of a string literal, by Go's rules: `\\x` and octal escapes are bytes of UTF-8.

    Bytes that are none stand in it as lone surrogates (`surrogateescape`); see `is_text`.
    """
    quote, body = literal[0], literal[1:-1]
    if quote == "`":
        return body
    if "\n" in body:
        raise BadExpression("parse error: unterminated quoted string")
    out, at = bytearray(), 0
    for match in _ESCAPE.finditer(body):
        out += body[at : match.start()].encode("utf-8", "surrogatepass")
        out += _escaped(match, quote)
        at = match.end()
    out += body[at:].encode("utf-8", "surrogatepass")
    return out.decode("utf-8", "surrogateescape")


def is_text(value: str) -> bool:
    """Whether a string literal was valid UTF-8."""
    return not any("\ud800" <= char < "\ue000" for char in value)


def printable(value: str) -> str:
    """A literal's value fit for a message: what is no UTF-8 as `\\xc5`."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _escaped(match: re.Match[str], quote: str) -> bytes:
    byte, octal, short, long, plain = match.groups()
    if byte or octal:
        code = int(byte, 16) if byte else int(octal, 8)
        if code < 256:
            return bytes([code])
    elif short or long:
        code = int(short or long, 16)
        if code < 0xD800 or 0xE000 <= code < 0x110000:
            return chr(code).encode()
    elif plain in _ESCAPES and (plain not in "'\"" or plain == quote):
        return bytes([_ESCAPES[plain]])
    raise BadExpression(f"parse error: unknown escape sequence {match[0]} in a string literal")
