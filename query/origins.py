"""Which web pages may read the API's answers: a regular expression over their origins."""

from precompute.matchers import compile_regex


class Origins:
    """Raises BadExpression for what is no regular expression."""

    def __init__(self, pattern: str) -> None:
        self._any = pattern == ".*"
        self._regex = compile_regex(pattern)

    def allowed(self, origin: str) -> str | None:
        """The value of Access-Control-Allow-Origin for a page of this origin; None for none."""
        if self._any:
            return "*"
        return origin if self._regex.fullmatch(origin) else None
