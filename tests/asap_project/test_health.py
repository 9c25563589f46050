"""The health pages of a role that has no HTTP API."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.registry import Collector

from asap_project import health
from asap_project.config.schema import Cluster
from asap_project.health import MOST_CONNECTIONS, NOT_HERE, Condition, HealthServer, serve_health
from tests.ports import free_port
from tests.running import Answer, http, poll_until


def condition(
    healthy: str | None = None, ready: str | None = None, registry: CollectorRegistry | None = None
) -> Condition:
    return Condition(lambda: healthy, lambda: ready, registry or CollectorRegistry())


@contextmanager
def served(shown: Condition, host: str = "127.0.0.1") -> Iterator[HealthServer]:
    server = HealthServer(host, 0, shown)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def get(server: HealthServer, path: str, method: str | None = None) -> Answer:
    return http(f"http://127.0.0.1:{server.port}{path}", method=method, timeout_s=30)


def test_it_works() -> None:
    registry = CollectorRegistry()
    Counter("ticks", "Ticks.", registry=registry).inc()
    with served(condition(registry=registry)) as server:
        assert [get(server, path).status for path in ("/-/healthy", "/-/ready")] == [200, 200]
        assert b"ticks_total 1.0" in get(server, "/metrics?name=x").body


def test_what_is_wrong_is_said_with_503() -> None:
    with served(condition("the last tick was 2 m ago", "starting")) as server:
        answer = get(server, "/-/healthy")
        assert (answer.status, answer.body) == (503, b"the last tick was 2 m ago\n")
        assert get(server, "/-/ready").body == b"starting\n"


@pytest.mark.parametrize("path", ["/", "/api/v1/query", "/-/healthy/", "/metrics/../etc"])
def test_nothing_else_is_served(path: str) -> None:
    with served(condition()) as server:
        assert (get(server, path).status, get(server, path).body) == (404, NOT_HERE)


def test_head_is_get_without_a_body_and_other_methods_are_refused() -> None:
    with served(condition()) as server:
        assert (get(server, "/metrics", "HEAD").status, get(server, "/metrics", "HEAD").body) == (200, b"")
        assert get(server, "/metrics", "POST").status == 501


def test_connections_beyond_the_bound_are_closed_and_the_next_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "SLOWEST_S", 60.0)  # none of the idle ones is given up meanwhile
    with served(condition()) as server:
        with ExitStack() as idle:
            for _ in range(MOST_CONNECTIONS):
                idle.enter_context(closing(socket.create_connection(("127.0.0.1", server.port))))
            with closing(socket.create_connection(("127.0.0.1", server.port), timeout=30)) as one_more:
                assert one_more.recv(1) == b""
        poll_until(lambda: answers(server), 30, "a free place")


def answers(server: HealthServer) -> bool:
    try:
        return get(server, "/-/healthy").status == 200
    except OSError:
        return False


def test_a_collector_that_fails_costs_its_request_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Collector):
        def collect(self) -> Iterator[None]:  # type: ignore[override]
            raise ValueError("broken")

        def describe(self) -> list[None]:  # type: ignore[override]
            return []

    registry = CollectorRegistry()
    registry.register(Failing())
    with served(condition(registry=registry)) as server:
        with pytest.raises(OSError):  # noqa: PT011 - the connection ends, in whatever way
            get(server, "/metrics")
        assert get(server, "/-/healthy").status == 200
    assert "broken" in caplog.text


def test_no_thread_of_it_outlives_the_process() -> None:
    with served(condition()) as server:
        get(server, "/-/healthy")
        assert all(thread.daemon for thread in threading.enumerate() if "asap-health" in thread.name)


def test_a_port_in_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with served(condition()) as server, pytest.raises(SystemExit) as end:
        serve_health(Cluster(health_port=server.port), condition())
    assert end.value.code == 1
    assert capsys.readouterr().err.startswith(f"asap: cannot listen on 127.0.0.1:{server.port}: Address already in use")


def test_port_0_is_none_and_an_ipv6_host_may_be_named() -> None:
    assert serve_health(Cluster(health_port=0), condition()) is None
    port = free_port()
    server = serve_health(Cluster(health_host="::1", health_port=port), condition())
    assert server is not None
    assert http(f"http://[::1]:{port}/-/ready", timeout_s=30).status == 200
    server.stop()
