"""kill -9, again and again, under load: what was acknowledged is there after the restart, once."""

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from precompute.clock import SystemClock
from precompute.log.segment import HEADER_BYTES
from tests.e2e.numbered import APART_MS, PARTS, Writer, await_more, held, writing
from tests.e2e.talking import crash, instant, named, ranged, single, tier, write
from tests.ports import free_port
from tests.running import Program, drawn_seed, poll_until

Start = Callable[..., AbstractContextManager[Program]]

pytestmark = pytest.mark.e2e

ROUNDS = 3
TORN = "cut off"
DAMAGED = "is damaged at byte"
CONFIG: dict[str, Any] = {
    "engine": {"minibatch": {"window_size": "1s", "allowed_lateness": "1s"}},
    "aggregations": [{"expr": "numbered", "by": ["writer"], "accumulators": ["sum", "count", "min", "max"]}],
}


def begin_ms() -> int:
    """Well in the past, so that many samples fit before now."""
    return SystemClock().now_ms() // 1000 * 1000 - 600_000


def last_segment(asap: Program) -> Path:
    return max((asap.folder / "data" / "log").glob("*.seg"))


def tear(asap: Program) -> None:
    """Half a record at the end of the log, as a crash in the middle of a write leaves it."""
    path = last_segment(asap)
    data = path.read_bytes()
    path.write_bytes(data + data[HEADER_BYTES : HEADER_BYTES + 60])


def litter(asap: Program) -> None:
    """Bytes at the end of the log that are no part of a record."""
    with last_segment(asap).open("ab") as file:
        file.write(b"\xa5" * 77)


BETWEEN: tuple[tuple[Callable[[Program], None], str], ...] = (
    (lambda _: None, ""),
    (tear, TORN),
    (litter, DAMAGED),
)
"""What happens to the log while nobody runs, and what its next reader must say."""


def test_every_acknowledged_sample_survives_kill_9_once(asap_process: Start) -> None:
    seed = drawn_seed()
    draw, port, begin = random.Random(seed), free_port(), begin_ms()
    config = {**CONFIG, "query_engine": {"http_port": port}}
    writers = [Writer(name, f"http://127.0.0.1:{port}", begin) for name in ("a", "b", "c")]
    said, expected = 0, ""
    for change, report in BETWEEN * ROUNDS:
        with asap_process(config) as asap:
            assert expected in asap.log()[said:]
            _counts_are_right(asap, writers)
            with writing(writers):
                await_more(writers, draw.randrange(5, 60))
                crash(asap)
            change(asap)
            said, expected = len(asap.log()), report
    with asap_process(config) as asap:
        assert expected in asap.log()[said:]
        _counts_are_right(asap, writers)
        _all_is_there(asap, writers)
        _summaries_equal_the_head(asap, begin, max(writer.end_ms() for writer in writers))
    assert all(writer.again for writer in writers), "no request met a dead server"


def _counts_are_right(asap: Program, writers: Sequence[Writer]) -> None:
    """None lost, none twice; one more than acknowledged may be there, whose answer was lost."""
    for writer in writers:
        at_ms = writer.end_ms()
        for part in PARTS:
            selector = f'numbered{{writer="{writer.name}",part="{part}"}}[1h]'
            count = single(instant(asap, f"sum(count_over_time({selector}))", at_ms)) if writer.acknowledged else 0
            assert count in (writer.acknowledged, writer.acknowledged + 1), (writer.name, part)
            if count:
                assert single(instant(asap, f"sum(sum_over_time({selector}))", at_ms)) == count * (count - 1) / 2


def _all_is_there(asap: Program, writers: Sequence[Writer]) -> None:
    for writer in writers:
        for part, found in held(asap, writer).items():
            missing = set(range(writer.acknowledged)) - found
            assert not missing, (writer.name, part)
            assert len(found) <= writer.acknowledged + 1


def _is_from_summaries(asap: Program, query: str, start: int, end: int) -> bool:
    return tier(ranged(asap, query, start, end, 1000)) == "summary"


def _summaries_equal_the_head(asap: Program, begin: int, end: int) -> None:
    start, end = (t // 1000 * 1000 for t in (begin + 1000, end))
    for op in ("sum", "count", "min", "max"):
        covered, beside = f"{op} by (writer) (numbered)", f"{op} by (writer) (numbered == numbered)"
        poll_until(partial(_is_from_summaries, asap, covered, start, end), 30, f"{op} from summaries")
        exact = ranged(asap, beside, start, end, 1000)
        assert tier(exact) == "head"
        assert ranged(asap, covered, start, end, 1000).json()["data"] == exact.json()["data"]


def test_a_torn_last_record_is_cut_off_and_reported(asap_process: Start) -> None:
    begin = begin_ms()
    with asap_process(CONFIG) as asap:
        for k in range(20):
            assert write(asap, [(named("numbered", writer="a"), [(begin + k * APART_MS, float(k))])]).status == 204
        crash(asap)
        path = last_segment(asap)
        path.write_bytes(path.read_bytes()[:-3])
    with asap_process(CONFIG) as asap:
        assert TORN in asap.log()
        assert _count(asap, begin + 20 * APART_MS) == 19
        assert write(asap, [(named("numbered", writer="a"), [(begin + 19 * APART_MS, 19.0)])]).status == 204
        assert _count(asap, begin + 20 * APART_MS) == 20
    assert asap.log().count(TORN) == 1


def _count(asap: Program, t_ms: int) -> float:
    return single(instant(asap, "sum(count_over_time(numbered[10m]))", t_ms))
