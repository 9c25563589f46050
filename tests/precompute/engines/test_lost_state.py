"""What is served after a power cut, a damaged disk or a changed setting took part of what a node remembers."""

from pathlib import Path

import pytest

from precompute.errors import ExecutionError
from precompute.stores.memory import MemoryStore
from tests.precompute.made_node import HOUR_MS, WIDTH_MS, Core, aggregation, series

M, LATE = series("m", k="a"), series("m", k="late")
SUM = aggregation("m", accumulators=["sum"])


def scraped(core: Core, minutes: int, value: float = 1.0) -> None:
    """A sample of M and a tick every 15 s."""
    for _ in range(4 * minutes):
        core.pass_time(WIDTH_MS)
        core.write([(M, core.clock.now_ms() - 1, value)])
        core.tick()


def summed(core: Core, end_ms: int) -> list[list[float]]:
    answer = core.instant("sum(m)", end_ms)
    return answer.value.values.tolist()  # type: ignore[union-attr]


def pane_of(t_ms: int) -> int:
    return -(-t_ms // WIDTH_MS) * WIDTH_MS


def in_store(core: Core, end_ms: int) -> bool:
    return bool(len(core.store.ends(SUM.id, end_ms - 1, end_ms)))


def test_a_final_pane_whose_last_commit_was_lost_is_made_again(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    scraped(core, 70)
    late_ms = core.clock.now_ms() - HOUR_MS + 10_000
    core.write([(LATE, late_ms, 100.0)])
    end_ms, before = pane_of(late_ms), dict(core.store._pieces)  # type: ignore[attr-defined]
    scraped(core, 1)
    assert core.intake.progress.final_ms >= end_ms and summed(core, end_ms) == [[101.0]]
    core.store = MemoryStore()
    core.store._pieces = before
    core = core.reopened()
    core.tick()
    assert summed(core, end_ms) == [[101.0]]
    scraped(core, 130)
    assert summed(core, end_ms) == [[101.0]]


def test_a_pane_that_lacks_a_sample_and_cannot_be_computed_is_never_final(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    scraped(core, 30)
    end_ms = pane_of(core.clock.now_ms() - 300_000)
    (tmp_path / "log" / "state.json").unlink()
    core = core.reopened()
    core.pass_time(5000)
    assert core.write([(LATE, end_ms - 1, 100.0)]).accepted == 1
    scraped(core, 150)
    assert core.intake.progress.final_ms >= end_ms
    assert not in_store(core, end_ms) and in_store(core, end_ms - WIDTH_MS)
    for again in (core, core.reopened()):
        with pytest.raises(ExecutionError, match="not held"):
            again.instant("sum(m)", end_ms)


def test_a_pane_that_lacks_a_sample_when_final_is_lost_goes_at_the_start(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    scraped(core, 30)
    end_ms = pane_of(core.clock.now_ms() - 300_000)
    core.write([(LATE, end_ms - 1, 100.0)])
    (tmp_path / "log" / "state.json").unlink()
    core.clock.advance(2 * HOUR_MS)
    core = core.reopened()
    assert core.intake.progress.final_ms >= end_ms
    assert not in_store(core, end_ms) and in_store(core, end_ms - WIDTH_MS)
