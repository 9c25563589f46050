"""Letting go of dead series changes ids and no answer."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from precompute.compaction import compact, worth_compacting
from precompute.errors import Rejected, TableReplaced
from precompute.samples import Block
from tests.precompute.made_node import START_MS, WIDTH_MS, Core, aggregation, series
from tests.reference.compare import at_step

KEPT = [aggregation("m", ["g"])]


def half_dead(folder: Path) -> Core:
    core = Core(folder, KEPT)
    core.write([(series("m", g="dead", i=str(i)), START_MS, 1.0) for i in range(50)])
    core.pass_time(60_000)
    core.write([(series("m", g="a", i=str(i)), START_MS + 60_000, float(i)) for i in range(50)])
    core.pass_time(60_000)
    core.tick()
    core.head.trim(START_MS)
    return core


def test_living_series_keep_their_samples_and_answers_and_dead_ones_go(tmp_path: Path) -> None:
    core = half_dead(tmp_path)
    t, before = START_MS + 61_000, len(core.head.table)
    right = at_step(core.instant("m", t).value, 0)
    compact(core.intake)
    assert (before, len(core.head.table)) == (100, 50)
    assert at_step(core.instant("m", t).value, 0) == right
    assert core.instant("sum by (g) (m)", START_MS + 60_000).tiers == ("summary",)


def test_writes_go_on_with_new_ids_and_those_of_the_old_table_are_refused(tmp_path: Path) -> None:
    core = half_dead(tmp_path)
    old = core.head.table
    compact(core.intake)
    with pytest.raises(TableReplaced):
        core.intake.write(Block(np.zeros(1, np.int32), np.array([START_MS + 90_000]), np.ones(1)), old)
    again, back, t = series("m", g="a", i="7"), series("m", g="dead", i="1"), START_MS + 90_000
    core.write([(again, t, 70.0), (back, t, 5.0)])
    answer = at_step(core.instant('m{i=~"1|7"}', t).value, 0)
    assert answer == {series("m", g="a", i="1"): 1.0, again: 70.0, back: 5.0}


def test_a_log_written_across_a_compaction_is_read_back_whole(tmp_path: Path) -> None:
    core = half_dead(tmp_path)
    compact(core.intake)
    core.write([(series("m", g="new"), START_MS + 90_000, 5.0)])
    right = at_step(core.instant('m{g!="dead"}', START_MS + 90_000).value, 0)
    assert len(right) == 51  # type: ignore[arg-type]
    assert at_step(core.reopened().instant('m{g!="dead"}', START_MS + 90_000).value, 0) == right


@pytest.mark.parametrize("too_old", [False, True])
def test_a_head_full_of_dead_labels_takes_writes_again(tmp_path: Path, too_old: bool) -> None:
    """Some hundred wide series, whose samples have left or were refused, beside many narrow ones that live."""
    core = Core(tmp_path, acceptance_ms=600_000, kept_ms=600_000)
    living = [series("m", i=str(i)) for i in range(1000)]
    core.write([(labels, START_MS, 1.0) for labels in living])
    t = START_MS - 3_600_000 * too_old
    with pytest.raises(Rejected, match=r"head\.max_bytes"):
        for i in range(1000):
            core.write([(series("wide", **{f"l{k}": f"{i}-{k}-" + "x" * 4000 for k in range(60)}), t, 1.0)])
    for _ in range(40):
        core.pass_time(60_000, beat_ms=10_000)
        with suppress(Rejected):
            core.write([(labels, core.clock.now_ms(), 1.0) for labels in living])
        core.tick()
    assert len(core.head.table) == 1000
    core.write([(labels, core.clock.now_ms(), 2.0) for labels in living])
    assert set(at_step(core.instant("m", core.clock.now_ms()).value, 0).values()) == {2.0}  # type: ignore[union-attr]


def test_few_dead_series_are_not_worth_it(tmp_path: Path) -> None:
    assert not worth_compacting(half_dead(tmp_path).intake.head)


def test_a_compaction_between_two_reads_of_one_query_changes_no_label(tmp_path: Path) -> None:
    """Both sides of an operator are read one after the other; their ids may be of different tables."""
    core = half_dead(tmp_path)
    known, reads = core.head.known, []

    def compacting() -> object:
        reads.append(1)
        if len(reads) == 2:
            compact(core.intake)
        return known()

    right = at_step(core.instant("m * m", START_MS + WIDTH_MS * 5).value, 0)
    core.head.known = compacting  # type: ignore[method-assign,assignment]
    symbols = core.head.table.symbols
    size = len(symbols)
    assert at_step(core.instant("m * m", START_MS + WIDTH_MS * 5).value, 0) == right
    assert len(reads) == 2
    assert len(symbols) == size
