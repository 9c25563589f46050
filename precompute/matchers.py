"""Label conditions on strings, with RE2's semantics: anchored, linear in time."""

import re2

from precompute.errors import BadExpression
from precompute.evaluate.expr import EQUAL, MATCHES, NOT_EQUAL, Matcher

_REGEX_BYTES = 8 << 20


class Condition:
    """One matcher, ready to be asked about values."""

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self._regex = None if matcher.op in (EQUAL, NOT_EQUAL) else compile_regex(matcher.value)

    def accepts(self, value: str) -> bool:
        """Whether a label of this value (absent: the empty string) fulfils the condition."""
        op = self.matcher.op
        if self._regex is None:
            return (value == self.matcher.value) == (op == EQUAL)
        return (self._regex.fullmatch(value) is not None) == (op == MATCHES)


def compile_regex(pattern: str) -> "re2._Regexp[str]":
    """The pattern as Prometheus reads it: the dot matches newlines, the whole value must match.

    Raises BadExpression for what is no RE2 expression, or too large a one.
    """
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    options.max_mem = _REGEX_BYTES
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise BadExpression(f"error parsing regexp: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else "invalid"
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def accepts_everything(matcher: Matcher) -> bool:
    """Whether a matcher is fulfilled by every value, the empty one included; only what is certain."""
    return matcher.op == MATCHES and matcher.value in (".*", "(.*)", "^.*$", ".*?", "|.*", ".*|", "(|.*)", "(.*|)")
