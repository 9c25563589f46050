"""A node comes up, serves, stops and comes up again."""

from pathlib import Path

import numpy as np
import pytest

from precompute.clock import ManualClock
from precompute.errors import InstallMismatch, LogDamaged, Rejected
from precompute.node import Node, NodeSettings
from precompute.samples import Block
from precompute.sinks import DirectSink
from precompute.stores.memory import MemoryStore
from tests.precompute.made_node import HOUR_MS, START_MS, aggregation, series

KEPT = [aggregation("m", ["g"])]


def settings(folder: Path, shards: int = 16) -> NodeSettings:
    return NodeSettings(
        data_dir=folder, window_ms=15_000, lateness_ms=15_000, acceptance_ms=HOUR_MS, max_reach_ms=HOUR_MS,
        kept_ms=HOUR_MS, max_future_ms=60_000, hash_seed=0, shards=shards, engine_threads=1, query_threads=2,
        head_max_bytes=1 << 26, log_max_bytes=1 << 26, max_backlog_bytes=1 << 26, min_free_disk_bytes=0,
        fsync_ms=1000, has_upstream=False,
    )  # fmt: skip


def started(folder: Path, store: MemoryStore, clock: ManualClock) -> Node:
    node = Node(settings(folder), store, KEPT, clock)
    assert node.why_not_ready()
    node.start()
    assert node.wait_until_rebuilt()
    return node


def write(node: Node, value: float) -> None:
    table = node.head.table
    sid = np.array([table.intern(series("m", g="a"))], np.int32)
    node.intake.write(Block(sid, np.array([node.clock.now_ms()]), np.array([value])), table)


def test_it_works(tmp_path: Path) -> None:
    store, clock = MemoryStore(), ManualClock(START_MS)
    node = started(tmp_path, store, clock)
    assert node.why_not_ready() is None
    write(node, 1.0)
    clock.advance(60_000)
    node.intake.heartbeat()
    node.engine.run(DirectSink(store))
    assert node.engine.health().completed_ms == START_MS + 60_000
    node.shutdown()
    assert node.why_not_ready() == "shutting down"
    with pytest.raises(Rejected, match="shutting down"):
        write(node, 2.0)
    again = started(tmp_path, store, clock)
    assert again.head.samples() == 1
    assert again.engine.books[KEPT[0].id].panes() == node.engine.books[KEPT[0].id].panes() > 0
    again.shutdown()


def test_nothing_is_taken_before_the_rebuild(tmp_path: Path) -> None:
    node = Node(settings(tmp_path), MemoryStore(), KEPT, ManualClock(START_MS))
    with pytest.raises(Rejected, match="being rebuilt"):
        write(node, 1.0)
    node.start()
    node.shutdown()


def test_two_nodes_cannot_share_a_folder(tmp_path: Path) -> None:
    node = started(tmp_path, MemoryStore(), ManualClock(START_MS))
    with pytest.raises(LogDamaged):
        Node(settings(tmp_path), MemoryStore(), KEPT, ManualClock(START_MS))
    node.shutdown()


def test_another_number_of_shards_is_refused(tmp_path: Path) -> None:
    started(tmp_path, MemoryStore(), ManualClock(START_MS)).shutdown()
    with pytest.raises(InstallMismatch, match="shards"):
        Node(settings(tmp_path, shards=8), MemoryStore(), KEPT, ManualClock(START_MS))


class Claimed:
    """A database that is whose claims it first."""

    def __init__(self, holder: str = "") -> None:
        self.holder = holder

    def __call__(self, install_id: str) -> str:
        self.holder = self.holder or install_id
        return self.holder


def opened(folder: Path, claim: Claimed) -> None:
    node = Node(settings(folder), MemoryStore(), KEPT, ManualClock(START_MS), claim=claim)
    node.start()
    node.shutdown()


def test_a_database_is_refused_to_a_second_data_dir_and_not_to_its_own(tmp_path: Path) -> None:
    database = Claimed()
    opened(tmp_path / "a", database)
    opened(tmp_path / "a", database)
    for _ in range(2):
        with pytest.raises(InstallMismatch, match=f"of install {database.holder}, but {tmp_path}/b is a new install"):
            opened(tmp_path / "b", database)
    other = Claimed()
    opened(tmp_path / "c", other)
    assert other.holder != database.holder
    with pytest.raises(InstallMismatch, match=f"of install {database.holder}, but .* is install {other.holder}"):
        opened(tmp_path / "c", database)


def test_an_install_that_had_no_id_takes_its_databases(tmp_path: Path) -> None:
    started(tmp_path, MemoryStore(), ManualClock(START_MS)).shutdown()
    opened(tmp_path, Claimed("of before"))
    with pytest.raises(InstallMismatch, match="is install of before"):
        opened(tmp_path, Claimed("another"))


def test_a_database_that_was_emptied_is_taken_again(tmp_path: Path) -> None:
    first, emptied = Claimed(), Claimed()
    opened(tmp_path, first)
    opened(tmp_path, emptied)
    assert emptied.holder == first.holder
