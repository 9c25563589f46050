"""Before the parser sees a query: its size is bounded, and its literals are put aside.

The parser recurses without a bound, judges regular expressions by rules that are not RE2's, decodes `\\xff` as
a character instead of a byte, and fails on times before 1970. So a text is first cut into tokens (a superset of
PromQL's, by Prometheus' lexer rules for strings, comments and numbers): too deep a text is refused, strings and
`@` times are replaced by references into a table, and the exact values are put back into the parsed tree.
"""

import math
import re
from dataclasses import dataclass, field

from precompute.errors import BadExpression, LimitExceeded

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+|\#[^\r\n]*)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+|[0-9a-zA-Z_.]*))
    |(?P<word>[A-Za-z_:][A-Za-z0-9_:]*)
    |(?P<op>=~|!~|==|!=|<=|>=|[-+*/%^<>=])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_WORD_OPERATORS = frozenset(("and", "or", "unless", "atan2"))
_NOT_OPERANDS = _WORD_OPERATORS | {"bool", "on", "ignoring", "by", "without", "group_left", "group_right"}
_MATCHING = frozenset(("=", "!=", "=~", "!~"))
_ZERO_DURATION = re.compile(r"0+(?:\.0*)?(?:ms|[smhdwy])?", re.ASCII)
_ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "'": 39, '"': 34}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
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
        """Operator and value of a string as the parser returned it; a plain name stands for itself."""
        reference = _REFERENCE.fullmatch(name)
        known = reference is not None and int(reference[1]) < len(self.strings)
        return self.strings[int(reference[1])] if reference and known else ("", name)

    def readable(self, message: str) -> str:
        """A message of the parser with the user's strings put back."""
        return _REFERENCE.sub(lambda m: self.string(m[0])[1], message)


def prepare(text: str, max_depth: int, max_length: int) -> Prepared:
    """Raises LimitExceeded for a text too long or too deep, BadExpression for broken literals."""
    if len(text) > max_length:
        raise LimitExceeded(f"the query has {len(text)} characters; the limit is {max_length}")
    tokens = [(m.lastgroup or "", m[0]) for m in _TOKEN.finditer(text) if m.lastgroup != "blank"]
    if depth_of(tokens) > max_depth:
        raise LimitExceeded(f"the query is nested deeper than {max_depth} levels")
    return _put_aside(tokens)


def depth_of(tokens: list[tuple[str, str]]) -> int:
    """A bound on the depth of the text's tree: a bracket or an operator is a level each."""
    level = _Level()
    outer: list[_Level] = []
    for kind, token in tokens:
        if kind == "other" and token in "([{":
            outer.append(level)
            level = _Level()
        elif kind == "other" and token in ")]}" and outer:
            level = outer.pop().with_inside(level)
        elif token == ",":
            level = _Level(argument=level.depth())
        elif kind == "op" or (kind == "word" and token.lower() in _WORD_OPERATORS):
            level.operators += 1
    while outer:
        level = outer.pop().with_inside(level)
    return level.depth()


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


def _put_aside(tokens: list[tuple[str, str]]) -> Prepared:
    prepared, out, at = Prepared(""), [""], 0
    braces = 0
    while at < len(tokens):
        kind, token = tokens[at]
        braces += (token == "{") - (token == "}")
        taken = 0
        following = tokens[at + 1 : at + 2]
        matched = braces > 0 and bool(following) and following[0][1] in _MATCHING
        if kind == "string":
            out.append(_reference(prepared, "", unquote(token)))
        elif kind == "word" and matched and ":" not in token:
            # some label names are words that the parser keeps for itself
            out.append(_reference(prepared, "", token))
        elif braces > 0 and token in _MATCHING and following and following[0][0] == "string":
            # the operator too: whether a matcher is empty is judged by the real value, not by the reference
            out.append(f"={_reference(prepared, token, unquote(following[0][1]))}")
            taken = 1
        elif token == "@" and (taken := _signed_number(tokens, at + 1)):
            prepared.times_ms.append(_time_ms("".join(t for _, t in tokens[at + 1 : at + 1 + taken])))
            out.append(f"@ {len(prepared.times_ms) - 1}")
        elif not (braces <= 0 and (taken := _zero_offset(tokens, at))):
            out.append(token)
        at += 1 + taken
    return Prepared(" ".join(out), prepared.strings, prepared.times_ms)


def _reference(prepared: Prepared, op: str, value: str) -> str:
    prepared.strings.append((op, value))
    return f'"\ue000{len(prepared.strings) - 1}\ue001"'


def _signed_number(tokens: list[tuple[str, str]], at: int) -> int:
    """How many tokens from `at` on are one number with an optional sign; 0 if they are none."""
    signed = at < len(tokens) and tokens[at][1] in ("+", "-")
    at += signed
    if at < len(tokens) and (tokens[at][0] == "number" or tokens[at][1].lower() in ("inf", "nan")):
        return 1 + signed
    return 0


def _zero_offset(tokens: list[tuple[str, str]], at: int) -> int:
    """How many tokens follow an `offset` that shifts by nothing, which Prometheus 3 takes and the parser refuses."""
    if tokens[at][1].lower() != "offset" or at == 0:
        return 0
    before, text = tokens[at - 1]
    operand = text in (")", "]", "}") or (before == "word" and text.lower() not in _NOT_OPERANDS)
    count = _signed_number(tokens, at + 1)
    return count if operand and count and _ZERO_DURATION.fullmatch(tokens[at + count][1]) else 0


def _time_ms(text: str) -> int:
    seconds = number(text)
    if not abs(seconds) < 1 << 52:
        raise BadExpression(f"parse error: timestamp out of bounds for @ modifier: {seconds:f}")
    return int(math.copysign(math.floor(abs(seconds * 1000) + 0.5), seconds))


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
    """The value of a string literal, by Go's rules: `\\x` and octal escapes are bytes of UTF-8."""
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
    try:
        return out.decode()
    except UnicodeDecodeError:
        raise BadExpression("parse error: a string literal is not valid UTF-8") from None


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
