"""How long after a pane's seal its summary is served, under live writes."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from precompute.clock import SystemClock
from precompute.panes import pane_end
from tests.bench.bodies import ONE, Encoder
from tests.bench.client import Client
from tests.bench.data import STEP_MS, Dataset
from tests.bench.measure import QUERY
from tests.bench.systems import LATENESS_MS
from tests.running import poll_until

PANES = 4
_EVERY_S = 0.1
_DEADLINE_S = 60.0


def seconds_to_summary(write_path: str, write_url: str, read_url: str, data: Dataset) -> list[float]:
    """Writes all series at the next pane ends as they come; per pane the seconds from its seal to its summary."""
    clock = SystemClock()
    encoder = Encoder(data, ONE)
    first_ms = pane_end(clock.now_ms() + STEP_MS, STEP_MS)
    ends = range(first_ms, first_ms + PANES * STEP_MS, STEP_MS)
    with ThreadPoolExecutor(1) as writer, Client(read_url) as client:
        writing = writer.submit(_write, write_path, write_url, encoder, ends)
        waits = [_wait_for_summary(client, end_ms) for end_ms in ends]
        writing.result()
    return waits


def _write(path: str, url: str, encoder: Encoder, ends: Sequence[int]) -> None:
    with Client(url) as client:
        for end_ms in ends:
            bodies = list(encoder.batch([end_ms]))
            _wait_until(end_ms)
            client.send(path, bodies)


def _wait_for_summary(client: Client, end_ms: int) -> float:
    """Seconds from the seal of the pane until a query at its end is answered from its summary."""
    sealed_ms = end_ms + LATENESS_MS
    _wait_until(sealed_ms)

    def is_served() -> bool:
        reply = client.get("/api/v1/query", query=QUERY, time=f"{end_ms / 1000:.3f}").checked()
        return any(name.lower() == "x-asap-tier" and text == "summary" for name, text in reply.headers.items())

    poll_until(is_served, _DEADLINE_S, f"pane {end_ms} is served from its summary", _EVERY_S)
    return (SystemClock().now_ms() - sealed_ms) / 1000


def _wait_until(t_ms: int) -> None:
    clock = SystemClock()
    poll_until(lambda: clock.now_ms() >= t_ms, 2 * _DEADLINE_S, "the pane has ended", 0.01)
