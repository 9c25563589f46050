"""What is admitted, and that order, splitting, repeats and lateness of the same samples change no bit of a summary."""

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from precompute import intake
from precompute.errors import Rejected, TableReplaced
from precompute.labels import SeriesTable
from precompute.log.base import Hole
from precompute.progress import MAX_HOLES
from precompute.samples import STALE as STALE_NUMBER
from precompute.samples import Block
from tests.precompute.made_node import EVERY, START_MS, WIDTH_MS, Core, aggregation, series
from tests.precompute.made_summaries import same
from tests.reference import worlds
from tests.reference.promql import Stale

A = series("m", g="a")
AGGREGATIONS = [
    aggregation("g", ["job"], accumulators=EVERY),
    aggregation("rate(c[1m])", ["job", "zone"], accumulators=["sum", "count", "max"]),
    aggregation("h > 0", ["i"], without=True, accumulators=EVERY),
]
Row = tuple[worlds.Labels, int, float]


def rows_of(world: worlds.World) -> list[Row]:
    return [
        (labels, t, STALE_NUMBER if isinstance(v, Stale) else v)
        for labels, samples in world.items()
        for t, v in samples
    ]


def delivered(folder: Path, random: Random | None, rows: list[Row]) -> Core:
    """In order of time and whole; or, with `random`, in any order and size, with repeats, ticks, kills between."""
    core = Core(folder, AGGREGATIONS, max_future_ms=10 * worlds.LENGTH_MS)
    rows = sorted(rows, key=lambda row: row[1])
    if random is not None:
        rows = rows + random.sample(rows, len(rows) // 5)
        random.shuffle(rows)
    cuts = [0, len(rows)] if random is None else [0, *sorted(random.sample(range(1, len(rows)), 20)), len(rows)]
    for a, b in zip(cuts, cuts[1:], strict=False):
        core.write(rows[a:b])
        if random is not None and random.random() < 0.3:
            core.pass_time(60_000, beat_ms=10_000)
            core.tick()
        if random is not None and random.random() < 0.1:
            core = core.reopened()
    core.pass_time(START_MS + worlds.LENGTH_MS + 600_000 - core.clock.now_ms(), beat_ms=10_000)
    for _ in range(2):
        core.tick()
    return core


@pytest.mark.parametrize("seed", range(8))
def test_any_order_split_repeat_and_lateness_gives_the_same_summaries_to_the_bit(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    rows = rows_of(worlds.world(random, START_MS))
    straight = delivered(tmp_path / "a", None, rows)
    muddled = delivered(tmp_path / "b", random, rows)
    last_ms = START_MS + worlds.LENGTH_MS + 300_000
    for kept in AGGREGATIONS:
        one, other = (core.store.get(kept.id, START_MS - WIDTH_MS, last_ms) for core in (straight, muddled))
        unseen = [np.zeros_like(s.seen) for s in (one, other)]
        assert one.panes == other.panes > 60
        assert same(replace(one, seen=unseen[0]), replace(other, seen=unseen[1]))


def test_nothing_is_taken_before_the_head_is_rebuilt_nor_after_the_stop(tmp_path: Path) -> None:
    core = Core(tmp_path)
    core.intake.stop()
    with pytest.raises(Rejected, match="shutting down"):
        core.write([(A, START_MS, 1.0)])
    core.intake.open()
    with pytest.raises(Rejected, match="shutting down"):
        core.write([(A, START_MS, 1.0)])
    assert core.log.last_id() == 0


def test_ids_of_another_table_are_not_taken(tmp_path: Path) -> None:
    core = Core(tmp_path)
    block = Block(np.zeros(1, np.int32), np.array([START_MS]), np.ones(1))
    with pytest.raises(TableReplaced):
        core.intake.write(block, SeriesTable())


def test_the_log_has_what_was_acknowledged_and_a_full_log_takes_nothing(tmp_path: Path) -> None:
    core = Core(tmp_path, log_max_bytes=4000)
    acknowledged = 0
    with pytest.raises(Rejected, match=r"log\.max_bytes"):
        for k in range(1000):
            core.write([(A, START_MS + k, float(k))])
            acknowledged += 1
    assert core.head.samples() == acknowledged > 5
    assert core.reopened().head.samples() == acknowledged


def test_a_head_that_may_not_hold_a_block_refuses_it_before_the_log_has_it_and_is_not_rebuilt_past_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("precompute.head._SPARE_SAMPLES", (1 << 15) - (1 << 26) // 12)
    core = Core(tmp_path)
    core.write([(A, START_MS + k, float(k)) for k in range(100)])
    with pytest.raises(Rejected, match=r"raise head\.max_bytes"):
        core.write([(A, START_MS + 1000 + k, float(k)) for k in range(600)])
    assert len(list(core.log.read(0, SeriesTable()))) == 1
    core.write([(A, START_MS + 1000 + k, float(k)) for k in range(100)])
    monkeypatch.setattr("precompute.head._SPARE_SAMPLES", (1 << 12) - (1 << 26) // 12)
    with pytest.raises(Rejected, match=r"raise head\.max_bytes"):
        core.reopened()


def test_bytes_that_no_tick_has_read_are_bounded_and_a_tick_makes_room(tmp_path: Path) -> None:
    core = Core(tmp_path, max_backlog_bytes=3000)
    with pytest.raises(Rejected, match=r"log\.max_backlog"):
        for k in range(1000):
            core.write([(A, START_MS + k, float(k))])
    core.tick()
    core.write([(A, START_MS + 5000, 1.0)])


def test_while_it_is_full_a_node_does_not_claim_to_listen_and_leaves_a_hole_after(tmp_path: Path) -> None:
    core = Core(tmp_path, max_backlog_bytes=3000)
    with pytest.raises(Rejected):
        for k in range(1000):
            core.write([(A, START_MS + k, float(k))])
    core.pass_time(120_000)
    assert core.intake.progress.alive_ms == START_MS
    core.tick()
    core.intake.heartbeat()
    assert core.intake.progress.alive_ms == START_MS + 120_000
    assert core.intake.progress.holes == (Hole(START_MS, START_MS + 120_000),)
    assert core.reopened().intake.progress.holes == (Hole(START_MS, START_MS + 120_000),)


def test_samples_too_old_or_too_early_leave_a_hole_of_their_metric_where_an_upstream_has_them(tmp_path: Path) -> None:
    core = Core(tmp_path, has_upstream=True)
    floor_ms = core.intake.progress.floor_ms
    ahead_ms = core.clock.now_ms() + core.max_future_ms + 1
    core.write([(A, floor_ms - 5000, 1.0), (A, floor_ms, 1.0), (series("other"), floor_ms - 9, 1.0)])
    core.write([(series("early"), ahead_ms, 1.0)])
    missing = {Hole(floor_ms - 5001, floor_ms, "m"), Hole(floor_ms - 10, floor_ms - 9, "other")}
    missing |= {Hole(ahead_ms - 1, ahead_ms, "early")}
    assert set(core.intake.progress.holes) == missing
    assert core.reopened().intake.progress.holes == core.intake.progress.holes
    core = Core(tmp_path / "alone")
    core.write([(A, core.intake.progress.floor_ms, 1.0)])
    assert core.intake.progress.holes == ()


def test_metrics_beyond_the_bound_are_not_known_to_be_received(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "_MOST_NOTED_METRICS", 3)
    core = Core(tmp_path, has_upstream=True)
    now_ms = core.clock.now_ms()
    for names in ("ab", "acde", "f"):
        core.write([(series(name), now_ms, 1.0) for name in names])
        core.intake.heartbeat()
    known = core.intake.progress.received_since
    assert len(known) == 3
    assert known == {"a": now_ms, "b": now_ms} | dict.fromkeys(set(known) & set("cde"), now_ms)


def test_between_samples_too_old_and_too_early_nothing_is_missing_and_ages_ahead_nothing_is_noted(
    tmp_path: Path,
) -> None:
    core = Core(tmp_path, has_upstream=True)
    floor_ms, now_ms = core.intake.progress.floor_ms, core.clock.now_ms()
    core.write([(A, floor_ms, 1.0), (A, now_ms + 3_600_000, 1.0), (A, now_ms * 1_000_000, 1.0)])
    missing = (Hole(floor_ms - 1, floor_ms, "m"), Hole(now_ms + 3_600_000 - 1, now_ms + 3_600_000, "m"))
    assert core.intake.progress.holes == missing
    assert core.reopened().intake.progress.holes == missing


def test_a_sample_ages_ahead_keeps_no_log(tmp_path: Path) -> None:
    core = Core(tmp_path, has_upstream=True, acceptance_ms=600_000, kept_ms=600_000, segment_ms=60_000)
    core.write([(A, t, 1.0) for t in (START_MS, START_MS + 90_000, START_MS * 1_000_000)])
    for _ in range(60):
        core.pass_time(60_000, beat_ms=10_000)
        core.write([(A, core.clock.now_ms(), 1.0)])
        core.tick()
    assert len(core.log._segments) < 30
    assert core.intake.progress.holes in ((), (Hole(START_MS + 90_000 - 1, START_MS + 90_000, "m"),))


def test_refused_samples_of_many_metrics_are_noted_at_once(tmp_path: Path) -> None:
    core = Core(tmp_path, has_upstream=True)
    before_ms = core.intake.progress.floor_ms - 3_600_000
    core.write([(series(f"m{i}"), before_ms + 2 * i, 1.0) for i in range(5000)])
    assert core.log.last_id() <= MAX_HOLES
    for t in (before_ms, before_ms + 9998):
        assert any(hole.touches(t - 1, t, "m0") for hole in core.intake.progress.holes)


def test_histogram_metrics_are_remembered_over_a_kill(tmp_path: Path) -> None:
    core = Core(tmp_path)
    core.intake.note_histograms(["h1", "h2"])
    core.intake.note_histograms(["h2"])
    assert core.reopened().intake.progress.histogram_metrics == {"h1", "h2"}


def test_the_names_of_noted_metrics_are_bounded_all_together(tmp_path: Path) -> None:
    core = Core(tmp_path, has_upstream=True)
    names = {f"{i:04}" + "x" * 4092 for i in range(2048)}
    core.intake.note_histograms(names)
    for note in (core.intake.note_histograms, core.intake.note_partial):
        with pytest.raises(Rejected, match="8388608 characters"):
            note(names | {"one_more"})
    assert core.reopened().intake.progress.histogram_metrics == names


def test_a_heartbeat_whose_hole_the_log_refuses_waits_for_a_later_one(tmp_path: Path) -> None:
    core = Core(tmp_path)
    append_hole = core.log.append_hole

    def refuse(hole: Hole) -> int:
        raise Rejected("no room")

    core.log.append_hole = refuse  # type: ignore[method-assign]
    core.clock.advance(120_000)
    core.intake.heartbeat()
    assert core.intake.progress.alive_ms == START_MS
    core.log.append_hole = append_hole  # type: ignore[method-assign]
    core.intake.heartbeat()
    assert core.intake.progress.alive_ms == START_MS + 120_000
    assert core.intake.progress.holes == (Hole(START_MS, START_MS + 120_000),)
