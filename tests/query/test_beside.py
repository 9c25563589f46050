"""Writes, ticks, new series, a compaction and queries at once: every answer is one that some moment could give."""

from pathlib import Path
from random import Random

import numpy as np

from precompute.compaction import compact
from precompute.errors import TableReplaced
from precompute.evaluate.values import Vector
from tests.precompute.made_node import START_MS, WIDTH_MS, Core, aggregation, series
from tests.reference.compare import at_step
from tests.reference.threads import beside

SERIES = 6
KEPT = [aggregation("m", ["g"]), aggregation("count_over_time(m[1m])", [], accumulators=["sum", "count"])]


def write(core: Core, random: Random, k: int, t_ms: int) -> None:
    """All series of `m` at once, with the number of the pane as value; and a series never seen before."""
    rows = [(series("m", g=f"g{i % 2}", i=str(i)), t_ms, float(k)) for i in range(SERIES)]
    random.shuffle(rows)
    rows.append((series("n", i=f"{k}-{random.randrange(10**6)}"), t_ms, 1.0))
    while True:
        try:
            core.write(rows)
            return
        except TableReplaced:
            continue


def test_answers_beside_writes_ticks_and_compactions_are_whole(tmp_path: Path) -> None:
    core, written, tiers = Core(tmp_path, KEPT), [0], set[tuple[str, ...]]()

    def ask() -> None:
        last = written[0]
        if last < 2:
            return
        end_ms = START_MS + last * WIDTH_MS
        first = max(1, last - 20)
        answer = core.range("sum by (g) (m)", START_MS + first * WIDTH_MS, end_ms)
        tiers.add(answer.tiers)
        assert isinstance(answer.value, Vector)
        for step, k in enumerate(range(first, last + 1)):
            assert at_step(answer.value, step) == {(("g", g),): float(k) * SERIES / 2 for g in ("g0", "g1")}
        alone = at_step(core.instant("count(m)", end_ms - 1).value, 0)
        assert alone == {(): float(SERIES)}
        counted = core.instant("sum(count_over_time(m[1m]))", START_MS + first * WIDTH_MS)
        assert at_step(counted.value, 0) == {(): float(min(4, first) * SERIES)}
        names = core.instant('n{i=~"1-.*"}', START_MS + WIDTH_MS).value
        assert isinstance(names, Vector)
        assert all(dict(names.frame.labels(row))["i"].startswith("1-") for row in range(len(names)))

    random = Random(1)
    with beside(3, ask):
        for k in range(1, 60):
            core.pass_time(WIDTH_MS)
            write(core, random, k, START_MS + k * WIDTH_MS)
            written[0] = k
            core.tick()
            if k % 25 == 0:
                core.head.trim(START_MS + (k - 24) * WIDTH_MS - 300_000)
                compact(core.intake)
    assert ("summary", "head") in tiers
    assert np.isin(core.store.ends(KEPT[0].id, START_MS, 1 << 60), core.store.ends(KEPT[1].id, START_MS, 1 << 60)).all()
