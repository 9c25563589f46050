"""What is served after a power cut, a damaged disk or a changed setting took part of what a node remembers."""

from pathlib import Path

import pytest

from precompute.errors import ExecutionError, QueryError
from precompute.stores.memory import MemoryStore
from tests.precompute.made_node import HOUR_MS, LOOKBACK_MS, START_MS, WIDTH_MS, Core, aggregation, series

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


@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_segment_that_is_missing_leaves_a_hole_wherever_it_lay(tmp_path: Path, place: int) -> None:
    core = Core(tmp_path, [SUM], segment_ms=300_000)
    scraped(core, 15)
    first_ms = START_MS + (0, 300_000, 600_000)[place] + WIDTH_MS
    paths = sorted((tmp_path / "log").glob("*.seg"))
    assert len(paths) == 3
    paths[place].unlink()
    core = core.reopened()
    assert summed(core, core.clock.now_ms() - 2 * WIDTH_MS) == [[1.0]]
    answer = core.instant("sum(count_over_time(m[15m]))", core.clock.now_ms())
    assert "known to be missing" in " ".join(answer.warnings)
    holes = core.intake.progress.holes
    assert any(hole.after_ms < first_ms and hole.until_ms >= first_ms + 300_000 - WIDTH_MS for hole in holes)
    core.write([(M, core.clock.now_ms(), 1.0)])
    assert core.log.last_id() > 60
    assert core.reopened().intake.progress.holes == holes


def test_trimming_is_no_loss(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM], segment_ms=300_000, kept_ms=600_000)
    scraped(core, 100)
    assert min(int(path.stem) for path in (tmp_path / "log").glob("*.seg")) > 1
    assert core.reopened().intake.progress.holes == ()


def test_a_log_that_is_gone_beside_its_progress_is_complete_from_now_on(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    scraped(core, 15)
    used, end_ms = core.log.last_id(), core.clock.now_ms() - 2 * WIDTH_MS
    for path in (tmp_path / "log").glob("*.seg"):
        path.unlink()
    core = core.reopened()
    core.pass_time(1000)
    core.tick()
    assert core.intake.progress.base_ms >= core.clock.now_ms() - 1000
    assert summed(core, end_ms) == [[1.0]], "made of what was there"
    with pytest.raises(ExecutionError, match="not held"):
        core.instant("sum(count_over_time(m[10m]))", end_ms)
    core.write([(M, core.clock.now_ms(), 1.0)])
    assert core.log.last_id() > used


@pytest.mark.parametrize("hours", [2, 24])
def test_a_pane_past_its_retention_comes_back_with_its_holes_or_not_at_all(tmp_path: Path, hours: int) -> None:
    kept = aggregation("m", accumulators=["sum"], retention_ms=2 * HOUR_MS)
    core = Core(tmp_path, [kept], has_upstream=True, acceptance_ms=600_000)
    scraped(core, 60)
    late_ms = core.clock.now_ms() - 660_000
    assert core.write([(LATE, late_ms, 100.0)]).too_old == 1
    end_ms = pane_of(late_ms)
    while core.clock.now_ms() < end_ms + 2 * HOUR_MS + LOOKBACK_MS + WIDTH_MS:
        scraped(core, 5)
    assert in_store(core, end_ms), "in a pack with later ones"
    again = aggregation("m", accumulators=["sum"], retention_ms=hours * HOUR_MS)
    core = core.reopened([again])
    for _ in range(2):
        with pytest.raises(QueryError):
            core.instant("sum(m)", end_ms)
        core.tick()


@pytest.mark.parametrize("at_first", [True, False])
def test_what_was_refused_before_there_was_an_upstream_is_asked_of_it(tmp_path: Path, at_first: bool) -> None:
    core = Core(tmp_path, [SUM], has_upstream=at_first)
    scraped(core, 75)
    if at_first:
        core.has_upstream = False
        core = core.reopened()
    late_ms = core.clock.now_ms() - 61 * 60_000
    assert core.write([(LATE, late_ms, 100.0)]).too_old == 1
    core.has_upstream = True
    core = core.reopened()
    core.pass_time(5000)
    with pytest.raises(QueryError, match="missing"):
        core.instant("sum(m)", pane_of(late_ms))
    assert summed(core, pane_of(core.intake.progress.floor_ms) + LOOKBACK_MS + WIDTH_MS) == [[1.0]]


def test_what_was_too_far_ahead_before_there_was_an_upstream_is_asked_of_it(tmp_path: Path) -> None:
    core = Core(tmp_path, [SUM])
    scraped(core, 10)
    ahead_ms = core.clock.now_ms() + 90_000
    assert core.write([(LATE, ahead_ms, 100.0)]).too_far_ahead == 1
    scraped(core, 10)
    core.has_upstream = True
    core = core.reopened()
    core.pass_time(5000)
    with pytest.raises(QueryError, match="missing"):
        core.instant("sum(m)", pane_of(ahead_ms))
