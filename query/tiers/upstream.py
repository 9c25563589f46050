"""The upstream tier: the exact system behind us, asked over HTTP, its answer passed on as it came."""

import base64
import http.client
import ssl
import urllib.parse
from collections.abc import Mapping, Sequence

from precompute.clock import Clock
from precompute.errors import TimedOut
from precompute.evaluate.limits import Budget
from query.answers import Forwarded
from query.errors import UpstreamDown
from query.metrics import QueryMetrics
from query.slots import Slots
from query.tiers.connections import Connections, Reply
from query.tiers.flights import Flights

MAX_BODY_BYTES = 256 << 20
_READ_BYTES = 1 << 16

PASSED_HEADERS = ("Authorization", "Cookie", "X-Id-Token", "X-Scope-OrgID")
"""Of a caller's headers, those that say who asks."""

_OUR_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "asap"}

Parameters = Mapping[str, str | Sequence[str]]


class Upstream:
    """Forwards requests of the Prometheus API; any thread may call it.

    address: the server's URL, with a path prefix and credentials where it needs them. ca_file: "" for the system's.
    Raises ValueError for a URL that cannot be one, OSError for a CA file that cannot be read.
    """

    def __init__(
        self, address: str, timeout_ms: int, ca_file: str, clock: Clock, slots: Slots, metrics: QueryMetrics
    ) -> None:
        url = urllib.parse.urlsplit(address)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"not an http or https URL: {_without_credentials(url)}")
        context = ssl.create_default_context(cafile=ca_file or None) if url.scheme == "https" else None
        self._connections = Connections(url.hostname, url.port, context)
        self._prefix, self._credentials = url.path.rstrip("/"), _basic(url)
        self._timeout_ms, self._clock, self._slots, self._metrics = timeout_ms, clock, slots, metrics
        self._flights = Flights(clock, metrics.upstream_shared.inc)
        self.name = _without_credentials(url)

    def query(self, path: str, parameters: Parameters, headers: Mapping[str, str], timeout_ms: int) -> Forwarded:
        """Its answer to a whole query; the caller's slot is given back while we wait.

        path: "query" or "query_range". Raises UpstreamDown, and TimedOut at the end of the query's time.
        """
        timeout_ms = min(timeout_ms, self._timeout_ms)
        self._slots.give_back()
        # a POST has room for long expressions
        form = {**parameters, "timeout": f"{timeout_ms}ms"}
        return self._request("POST", f"/api/v1/{path}", form, headers, timeout_ms)

    def part(self, path: str, parameters: Parameters, headers: Mapping[str, str], budget: Budget) -> Forwarded:
        """Its answer to a sub-expression; the caller's slot is lent while we wait. Raises as `query` does."""
        timeout_ms = min(budget.left_ms(), self._timeout_ms)
        form = {**parameters, "timeout": f"{timeout_ms}ms"}
        with self._slots.lent(budget.left_ms):
            return self._request("POST", f"/api/v1/{path}", form, headers, timeout_ms)

    def get(self, path: str, parameters: Parameters, headers: Mapping[str, str], timeout_ms: int) -> Forwarded:
        """Its answer to any other GET below /api/v1/; a slot is lent while we wait. Raises as `query` does."""
        timeout_ms = min(timeout_ms, self._timeout_ms)
        end_s = self._clock.monotonic_s() + timeout_ms / 1000
        with self._slots.lent(lambda: max(0, int((end_s - self._clock.monotonic_s()) * 1000))):
            return self._request("GET", f"/api/v1/{path}", parameters, headers, timeout_ms)

    def close(self) -> None:
        """Close the connections that are kept open; it is not asked afterwards."""
        self._connections.close()

    def _request(
        self, method: str, path: str, parameters: Parameters, headers: Mapping[str, str], timeout_ms: int
    ) -> Forwarded:
        """The answer of one request, which others who ask the same at the same time get too."""
        deadline_s = self._clock.monotonic_s() + timeout_ms / 1000
        passed = self._passed(headers)
        same = {name: value for name, value in sorted(parameters.items()) if name != "timeout"}
        key = (method, path, urllib.parse.urlencode(same, doseq=True), tuple(sorted(passed.items())))
        try:
            return self._flights.join(
                key, deadline_s, lambda: self._counted(method, path, parameters, passed, timeout_ms)
            )
        except TimeoutError:
            raise self._late(timeout_ms) from None

    def _counted(
        self, method: str, path: str, parameters: Parameters, headers: Mapping[str, str], timeout_ms: int
    ) -> Forwarded:
        began_s, outcome = self._clock.monotonic_s(), "failed"
        try:
            answer = self._sent(method, path, parameters, headers, began_s + timeout_ms / 1000)
            outcome = "answered" if answer.status == 200 else "refused"
            return answer
        except TimeoutError:
            outcome = "timed_out"
            raise self._late(timeout_ms) from None
        except (OSError, http.client.HTTPException) as error:
            raise UpstreamDown(f"the upstream {self.name} cannot be asked: {_reason(error)}") from error
        finally:
            self._metrics.upstream_requests.labels(outcome).inc()
            self._metrics.upstream_seconds.observe(self._clock.monotonic_s() - began_s)

    def _sent(
        self, method: str, path: str, parameters: Parameters, headers: Mapping[str, str], deadline_s: float
    ) -> Forwarded:
        form = urllib.parse.urlencode(parameters, doseq=True)
        target = self._prefix + path + (f"?{form}" if method == "GET" and form else "")
        body = form.encode() if method == "POST" else None
        typed = {"Content-Type": "application/x-www-form-urlencoded"} if method == "POST" else {}
        with self._connections.answer(
            method, target, body, {**headers, **typed, **_OUR_HEADERS}, self._left_s(deadline_s)
        ) as reply:
            return self._forwarded(reply, deadline_s)

    def _forwarded(self, reply: Reply, deadline_s: float) -> Forwarded:
        if 300 <= reply.status < 400:
            raise UpstreamDown(f"the upstream {self.name} sends us elsewhere, to {reply.location}; set that as its URL")
        if not 200 <= reply.status < 600:
            raise UpstreamDown(f"the upstream {self.name} answered with the unknown status {reply.status}")
        body = bytearray()
        while piece := reply.read(_READ_BYTES, self._left_s(deadline_s)):
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise UpstreamDown(f"the upstream {self.name} answered with more than {MAX_BODY_BYTES} bytes")
        return Forwarded(reply.status, reply.content_type, bytes(body))

    def _late(self, timeout_ms: int) -> TimedOut:
        return TimedOut(f"the upstream {self.name} did not answer within {timeout_ms / 1000:g}s")

    def _left_s(self, deadline_s: float) -> float:
        left_s = deadline_s - self._clock.monotonic_s()
        if left_s <= 0:
            raise TimeoutError
        return left_s

    def _passed(self, caller: Mapping[str, str]) -> dict[str, str]:
        """Who asks, as the upstream shall hear it."""
        passed = {name: caller[name] for name in PASSED_HEADERS if caller.get(name)}
        if self._credentials:
            passed.setdefault("Authorization", self._credentials)
        return passed


def _basic(url: urllib.parse.SplitResult) -> str:
    if url.username is None:
        return ""
    pair = f"{urllib.parse.unquote(url.username)}:{urllib.parse.unquote(url.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def _without_credentials(url: urllib.parse.SplitResult) -> str:
    return urllib.parse.urlunsplit((url.scheme, url.netloc.rpartition("@")[2], url.path.rstrip("/"), "", ""))


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}; see query_engine.prometheus_ca_file"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
