"""Writers whose every sample has a number, so that a lost and a doubled one are both seen.

Sample k of a writer is `numbered{writer, part} k` at `begin + k * APART_MS`: at that time an instant selector gives k
if the sample is there, else the one before.
"""

import http.client
import threading
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.e2e.talking import SNAPPY, named, points, ranged
from tests.ingest.wire import encode_write_request, snappy
from tests.running import Program, poll_until

PARTS = ("x", "y", "z")
APART_MS = 10
PAUSE_S = 0.004
CHUNK = 5000


def body(writer: str, begin_ms: int, k: int) -> bytes:
    """The request that holds sample k of a writer, in each part."""
    at_ms = begin_ms + k * APART_MS
    return snappy(
        encode_write_request((named("numbered", writer=writer, part=part), [(at_ms, float(k))]) for part in PARTS)
    )


class Writer:
    """Sends its samples one after another, each until it is acknowledged."""

    def __init__(self, name: str, url: str, begin_ms: int) -> None:
        self.name, self.begin_ms, self.acknowledged, self.again = name, begin_ms, 0, 0
        self._address = urllib.parse.urlsplit(url).netloc
        self._connection: http.client.HTTPConnection | None = None

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(PAUSE_S):
            if self._sent(body(self.name, self.begin_ms, self.acknowledged)):
                self.acknowledged += 1
            else:
                self.again += 1
                stop.wait(0.05)
        self._hang_up()

    def _sent(self, request: bytes) -> bool:
        """Whether the server has taken it for good."""
        try:
            self._connection = self._connection or http.client.HTTPConnection(self._address, timeout=20)
            self._connection.request("POST", "/api/v1/write", request, SNAPPY)
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self._hang_up()
            return False
        assert answer.status in (204, 503), (answer.status, text)
        return answer.status == 204

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def end_ms(self, slack: int = 1) -> int:
        """A time after the last sample that may be there."""
        return self.begin_ms + (self.acknowledged + slack) * APART_MS


@contextmanager
def writing(writers: Sequence[Writer]) -> Iterator[None]:
    """All of them at work until the end of the block."""
    stop = threading.Event()
    threads = [threading.Thread(target=writer.run, args=(stop,)) for writer in writers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def await_more(writers: Sequence[Writer], more: int) -> None:
    """Until each writer has had `more` samples acknowledged."""
    wanted = [writer.acknowledged + more for writer in writers]
    poll_until(
        lambda: all(w.acknowledged >= n for w, n in zip(writers, wanted, strict=True)), 60, "more acknowledged samples"
    )


def held(asap: Program, writer: Writer) -> dict[str, set[int]]:
    """Per part the numbers that are there, read one by one."""
    found: dict[str, set[int]] = {part: set() for part in PARTS}
    query = f'numbered{{writer="{writer.name}"}}'
    for first in range(0, writer.acknowledged + 1, CHUNK):
        start_ms = writer.begin_ms + first * APART_MS
        end_ms = writer.begin_ms + min(first + CHUNK - 1, writer.acknowledged) * APART_MS
        for (labels, t_ms), value in points(ranged(asap, query, start_ms, end_ms, APART_MS)).items():
            if t_ms == writer.begin_ms + value * APART_MS:
                found[dict(labels)["part"]].add(int(value))
    return found
