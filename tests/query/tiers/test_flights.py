"""Equal requests at the same time are sent once."""

import http.server
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest
from prometheus_client import CollectorRegistry

from precompute.clock import SystemClock
from precompute.errors import QueryError, TimedOut
from query.answers import Forwarded
from query.errors import UpstreamDown
from query.metrics import QueryMetrics
from query.slots import Slots
from query.tiers.upstream import Upstream
from tests.query.answering import Reply, Server, answering, serving
from tests.running import poll_until

Outcome = Forwarded | QueryError


class Gate:
    """A server that answers nothing until it is opened, behind an upstream that is asked from many threads."""

    def __init__(self, server: Server) -> None:
        self.server, self.registry, self._open = server, CollectorRegistry(), threading.Event()
        self.upstream = Upstream(server.url, 60_000, "", SystemClock(), Slots(1), QueryMetrics(self.registry))
        self.reply: Reply = answering(200, b"one answer")
        self.outcomes: list[Outcome] = []
        self._threads: list[threading.Thread] = []
        server.reply = self._wait

    def _wait(self, request: http.server.BaseHTTPRequestHandler) -> None:
        self._open.wait(120)
        self.reply(request)

    def begin(self, ask: Callable[[Upstream], Forwarded]) -> None:
        def run() -> None:
            try:
                self.outcomes.append(ask(self.upstream))
            except QueryError as error:
                self.outcomes.append(error)

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def await_requests(self, count: int) -> None:
        poll_until(lambda: len(self.server.asked) >= count, 30, f"{count} requests")

    def finish(self) -> Sequence[Outcome]:
        self._open.set()
        for thread in self._threads:
            thread.join()
        return self.outcomes

    def shared(self) -> float:
        return self.registry.get_sample_value("asap_upstream_shared_total") or 0.0


@pytest.fixture
def gate() -> Iterator[Gate]:
    with serving() as server:
        gate = Gate(server)
        yield gate
        gate.finish()
        gate.upstream.close()


def query(text: str = "up", timeout_ms: int = 60_000, **headers: str) -> Callable[[Upstream], Forwarded]:
    return lambda upstream: upstream.query("query", {"query": text, "time": "1"}, headers, timeout_ms)


def test_equal_queries_are_sent_once_and_all_get_the_answer(gate: Gate) -> None:
    for k in range(8):
        gate.begin(query(timeout_ms=60_000 + k))
    gate.await_requests(1)
    outcomes = gate.finish()
    assert outcomes == [Forwarded(200, "application/json", b"one answer")] * 8
    assert len(gate.server.asked) + gate.shared() == 8


def test_catalogue_requests_too(gate: Gate) -> None:
    for _ in range(3):
        gate.begin(lambda upstream: upstream.get("labels", {"match[]": ["a", "b"]}, {}, 60_000))
    gate.await_requests(1)
    assert len(gate.finish()) == 3
    assert len(gate.server.asked) + gate.shared() == 3


def test_once_it_is_answered_the_next_one_is_sent(gate: Gate) -> None:
    gate.finish()
    for _ in range(3):
        query()(gate.upstream)
    assert (len(gate.server.asked), gate.shared()) == (3, 0)


def test_what_differs_in_text_path_or_in_who_asks_is_sent_each(gate: Gate) -> None:
    different = [
        query(),
        query("down"),
        query(Authorization="Bearer a"),
        query(Authorization="Bearer b"),
        query(**{"X-Scope-OrgID": "team"}),
        lambda upstream: upstream.query("query_range", {"query": "up", "time": "1"}, {}, 60_000),
        lambda upstream: upstream.get("query", {"query": "up", "time": "1"}, {}, 60_000),
    ]
    for ask in different:
        gate.begin(ask)
    gate.await_requests(len(different))
    gate.finish()
    assert gate.shared() == 0


def test_an_error_is_shared_too(gate: Gate) -> None:
    gate.reply = answering(302, b"", Location="/login")
    for _ in range(4):
        gate.begin(query())
    gate.await_requests(1)
    assert [type(one) for one in gate.finish()] == [UpstreamDown] * 4
    assert len({id(one) for one in gate.outcomes}) == 4
    assert len(gate.server.asked) + gate.shared() == 4


def test_each_waits_only_as_long_as_it_may(gate: Gate) -> None:
    gate.begin(query())
    gate.await_requests(1)
    with pytest.raises(TimedOut, match=r"did not answer within 0\.05s"):
        query(timeout_ms=50)(gate.upstream)
    assert len(gate.server.asked) == 1


def test_who_has_more_time_than_the_one_who_asked_first_asks_again(gate: Gate) -> None:
    gate.begin(query(timeout_ms=2000))
    gate.await_requests(1)
    for _ in range(3):
        gate.begin(query(timeout_ms=90_000))
    gate.await_requests(2)
    outcomes = gate.finish()
    assert sorted(type(one).__name__ for one in outcomes) == ["Forwarded"] * 3 + ["TimedOut"]
    assert len(gate.server.asked) + gate.shared() == 4


def test_an_upstream_that_ran_out_of_the_first_ones_time_is_asked_again(gate: Gate) -> None:
    late = b'{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}'

    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        first = len(gate.server.asked) == 1
        (answering(503, late) if first else answering(200, b"at last"))(request)

    gate.reply = reply
    gate.begin(query(timeout_ms=60_000))
    gate.await_requests(1)
    gate.begin(query(timeout_ms=90_000))
    outcomes = gate.finish()
    assert {one.status for one in outcomes if isinstance(one, Forwarded)} == {503, 200}


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (answering(200, b""), "answered"),
        (answering(422, b""), "refused"),
        (answering(302, b""), "failed"),
        (None, "timed_out"),
    ],
)
def test_outcomes_and_time_are_counted(gate: Gate, reply: Reply | None, outcome: str) -> None:
    """Without a reply nothing comes until the one who asked has given up."""
    gave_up = threading.Event()
    gate.reply = reply or (lambda request: gave_up.wait(120))
    gate.begin(query(timeout_ms=100 if outcome == "timed_out" else 60_000))
    gate.finish()
    gave_up.set()
    assert gate.registry.get_sample_value("asap_upstream_requests_total", {"outcome": outcome}) == 1
    assert gate.registry.get_sample_value("asap_upstream_seconds_count") == 1
