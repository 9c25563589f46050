"""What is noted of each query: counts for /metrics, and a line of the query log where there is one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.http import HttpRequest

from query.api.params import InstantParams, RangeParams
from query.apps import QueryParts
from query.query_log import Asked, Made


@contextmanager
def noted(
    parts: QueryParts, request: HttpRequest, asked: InstantParams | RangeParams
) -> Iterator[Callable[[Made], None]]:
    """Call what this yields with the answer; an error inside the block is noted too."""
    if parts.query_log is None:
        yield parts.metrics.count
        return
    with parts.query_log.noting(_asked(request, asked)) as note:

        def count_and_note(made: Made) -> None:
            parts.metrics.count(made)
            note(made)

        yield count_and_note


def _asked(request: HttpRequest, asked: InstantParams | RangeParams) -> Asked:
    client, user = request.META.get("REMOTE_ADDR", ""), request.META.get("REMOTE_USER", "")
    if isinstance(asked, RangeParams):
        return Asked("range", asked.query, asked.start_ms, asked.end_ms, asked.step_ms, client, user)
    return Asked("instant", asked.query, asked.time_ms, asked.time_ms, 0, client, user)
