"""Everything the query package raises on purpose, beside the core's QueryError tree.

    QueryError (precompute.errors)
    ├── BadParameter    a parameter of a request is wrong or missing; names it
    ├── NotFound        a path or thing that is not there
    ├── Conflict        a change of something that cannot be changed here
    ├── NotReady        the node is starting, rebuilding or stopping
    ├── UpstreamDown    the upstream did not answer, or not with something that can be passed on
    └── NotJoinable     what the upstream has cannot be a part of an answer made here; it can answer whole queries

`ANSWERS` is the one table that gives errors their HTTP status and Prometheus' error type.
"""

from precompute.errors import BadExpression, ExecutionError, LimitExceeded, QueryError, TimedOut, Unsupported


class BadParameter(QueryError):
    """A wrong parameter; the text is Prometheus' own where it has one."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f'invalid parameter "{name}": {reason}' if name else reason)


class NotFound(QueryError):
    """Nothing answers under this path."""


class Conflict(QueryError):
    """What is there stands against the change; the text says what and the remedy."""


class NotReady(QueryError):
    """Queries cannot be answered yet, or no longer; the text says why."""


class UpstreamDown(QueryError):
    """The upstream gave no answer that can be passed on; the text names it and the reason."""


class NotJoinable(QueryError):
    """A part of an answer that cannot be held here; the text names the upstream and what it is."""


ANSWERS: dict[type[QueryError], tuple[int, str]] = {
    BadParameter: (400, "bad_data"),
    BadExpression: (400, "bad_data"),
    ExecutionError: (422, "execution"),
    Unsupported: (422, "execution"),
    LimitExceeded: (422, "execution"),
    TimedOut: (503, "timeout"),
    NotReady: (503, "unavailable"),
    UpstreamDown: (503, "unavailable"),
    NotJoinable: (422, "execution"),
    NotFound: (404, "not_found"),
    Conflict: (409, "bad_data"),
}


def answer_for(error: QueryError) -> tuple[int, str]:
    """HTTP status and error type of an error, by its class or the nearest one above it."""
    for kind in type(error).__mro__:
        if kind in ANSWERS:
            return ANSWERS[kind]
    return 422, "execution"
