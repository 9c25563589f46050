"""The contract of SampleLog, kept by every implementation; memory is the reference."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from precompute.clock import ManualClock
from precompute.cluster.log import RedisSampleLog
from precompute.errors import Rejected
from precompute.labels import SeriesTable
from precompute.log.base import Hole, OwnLog, SampleLog
from precompute.log.memory import MemorySampleLog
from precompute.samples import STALE, Block
from tests.cluster.made_shards import made_shards
from tests.precompute.log.drawn import NOW_MS, OpenFiles, Row, block, entries, rows_of, samples
from tests.servers import RedisServer


def fill(log: SampleLog, written: Block) -> None:
    for _ in range(1000):
        log.append(written)


KINDS = ("memory", "files", "redis")
ANY_TIME_MS = 1 << 62


def open_log(
    kind: str, folder: Path, table: SeriesTable, max_bytes: int = 1 << 30, future_ms: int = ANY_TIME_MS
) -> SampleLog:
    if kind == "memory":
        return MemorySampleLog(table, max_bytes)
    if kind == "files":
        return OpenFiles(folder)(table, max_bytes=max_bytes, segment_bytes=2000)
    shards = made_shards(
        Servers.redis.url, SteppingClock(NOW_MS), acceptance_ms=2 * ANY_TIME_MS, future_ms=future_ms,
        lateness_ms=ANY_TIME_MS, segment_ms=5000, log_max_bytes=max_bytes,
    )  # fmt: skip
    return RedisSampleLog(shards.all[0], table)


class Servers:
    """What the logs stand on, while the tests of this module run."""

    redis: RedisServer


@pytest.fixture(scope="module", autouse=True)
def server(shared_redis: RedisServer) -> None:
    Servers.redis = shared_redis


class SteppingClock(ManualClock):
    """One second later each time it is asked."""

    def now_ms(self) -> int:
        self.advance(1000)
        return super().now_ms()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, redis: RedisServer) -> str:
    return str(request.param)


@pytest.fixture
def table() -> SeriesTable:
    return SeriesTable()


@pytest.fixture
def log(kind: str, tmp_path: Path, table: SeriesTable) -> Iterator[SampleLog]:
    opened = open_log(kind, tmp_path, table)
    yield opened
    opened.close()


def test_it_works(log: SampleLog, table: SeriesTable) -> None:
    written = block(table, [(1, NOW_MS, 1.5), (2, NOW_MS + 1, STALE), (1, NOW_MS - 5, -0.0)])
    number = log.append(written)
    assert number > 0
    assert [e.id for e in entries(log)] == [number]
    assert samples(log) == rows_of(written, table)


def test_an_empty_log_has_nothing(log: SampleLog) -> None:
    assert entries(log) == []
    assert log.last_id() == 0
    assert log.oldest_ms() is None


def test_ids_grow_and_holes_take_one(kind: str, log: SampleLog, table: SeriesTable) -> None:
    one = block(table, [(1, NOW_MS, 1.0)])
    a, b, c = log.append(one), log.append_hole(Hole(5, 9, "m")), log.append(one)
    assert a < b < c == log.last_id()
    assert [(e.id, e.hole) for e in entries(log)] == [(a, None), (b, Hole(5, 9, "m")), (c, None)]
    assert kind == "redis" or (a, b, c) == (1, 2, 3)


def test_a_read_sees_what_was_appended_before_it_was_called(log: SampleLog, table: SeriesTable) -> None:
    first = log.append(block(table, [(1, NOW_MS, 1.0)]))
    reading = log.read(0, SeriesTable())
    second = log.append(block(table, [(2, NOW_MS, 1.0)]))
    log.trim(NOW_MS)
    assert [e.id for e in reading] in ([first], [first, second])


def test_the_writers_arrays_may_be_used_again(log: SampleLog, table: SeriesTable) -> None:
    written = block(table, [(1, NOW_MS, 1.0)])
    log.append(written)
    before = samples(log)
    written.value[0], written.t_ms[0] = 99.0, 0
    assert samples(log) == before


def test_times_far_apart_come_back(log: SampleLog, table: SeriesTable) -> None:
    written = block(table, [(1, NOW_MS, 1.0), (2, -(1 << 62), 2.0), (3, 1 << 62, 3.0), (1, NOW_MS + 1, 4.0)])
    log.append(written)
    assert sorted(samples(log)) == sorted(rows_of(written, table))


def test_the_oldest_time_is_of_samples_and_not_of_holes(log: SampleLog, table: SeriesTable) -> None:
    log.append_hole(Hole(1, 2))
    assert log.oldest_ms() is None
    log.append(block(table, [(1, NOW_MS, 1.0), (2, NOW_MS - 7, 1.0)]))
    assert log.oldest_ms() == NOW_MS - 7


def test_a_full_log_refuses_blocks_takes_holes_and_stays_as_it_was(
    kind: str, tmp_path: Path, table: SeriesTable
) -> None:
    log = open_log(kind, tmp_path, table, max_bytes=1000)
    one = block(table, [(1, NOW_MS, 1.0)])
    with pytest.raises(Rejected, match=r"log\.max_bytes"):
        fill(log, one)
    last, kept, size = log.last_id(), samples(log), log.size_bytes()
    assert 0 < size <= 1000
    with pytest.raises(Rejected):
        log.append(block(table, [(7, NOW_MS, 1.0)] * 100))
    log.append_hole(Hole(1, 2, "long enough to pass the limit" * 40))
    with pytest.raises(Rejected, match=r"log\.max_bytes"):
        log.check_room()
    assert log.last_id() > last
    last, size = log.last_id(), log.size_bytes()
    assert (log.last_id(), samples(log), log.size_bytes()) == (last, kept, size)
    assert log.append_hole(Hole(1, 2)) > last
    log.close()


def test_trimming_makes_room(kind: str, tmp_path: Path, table: SeriesTable) -> None:
    log = open_log(kind, tmp_path, table, max_bytes=20_000, future_ms=1000)
    for i in range(20):
        log.append(block(table, [(s, NOW_MS + 1000 * i, 1.0) for s in range(20)]))
    before = log.size_bytes()
    log.trim(NOW_MS + 15_000)
    assert log.size_bytes() < before
    assert log.oldest_ms() is not None
    assert {t for _, t, _ in samples(log)} >= set(range(NOW_MS + 16_000, NOW_MS + 20_000, 1000))
    log.close()


@pytest.mark.parametrize("own", ["memory", "files"])
def test_the_first_entry_that_a_trim_leaves_is_known_before(own: str, tmp_path: Path, table: SeriesTable) -> None:
    log = cast(OwnLog, open_log(own, tmp_path, table))
    assert log.first_id(NOW_MS) == 0
    for i in range(20):
        log.append(block(table, [(s, NOW_MS + 1000 * i, 1.0) for s in range(200)]))
    found = []
    for after_ms in (-1, 5000, 5000, 12_000, 60_000):
        found.append(log.first_id(NOW_MS + after_ms))
        log.trim(NOW_MS + after_ms)
        assert entries(log)[0].id == found[-1]
    assert found == sorted(found) and found[0] == 1 < found[-1]
    log.close()


def test_the_newest_entry_outlives_every_trim(log: SampleLog, table: SeriesTable) -> None:
    newest = [log.append(block(table, [(1, NOW_MS + i, 1.0)])) for i in range(3)][-1]
    log.rotate(table)
    log.trim(NOW_MS + 1000)
    assert log.last_id() == newest
    assert entries(log)[-1].id == newest
    assert log.append(block(table, [(1, NOW_MS, 1.0)])) > newest


def test_entries_after_a_rotation_use_the_new_tables_ids(log: SampleLog, table: SeriesTable) -> None:
    first = block(table, [(1, NOW_MS, 1.0), (2, NOW_MS, 2.0)])
    log.append(first)
    compacted = SeriesTable()
    log.rotate(compacted)
    second = block(compacted, [(2, NOW_MS + 1, 3.0)])
    log.append(second)
    assert first.sid[0] == second.sid[0]
    assert samples(log) == rows_of(first, table) + rows_of(second, compacted)


def test_a_reader_keeps_the_ids_of_its_own_table(log: SampleLog, table: SeriesTable) -> None:
    log.append(block(table, [(1, NOW_MS, 1.0), (2, NOW_MS, 2.0)]))
    own = SeriesTable()
    known = block(own, [(9, 0, 0.0), (2, 0, 0.0)]).sid[1]
    read = next(iter(log.read(0, own))).block
    assert read is not None
    assert read.sid[1] == known
    assert len(own) == 3


values = st.floats(allow_nan=True, width=64) | st.just(STALE)
drawn_rows = st.lists(
    st.tuples(st.integers(0, 40), st.integers(NOW_MS - 50, NOW_MS + 50), values), min_size=1, max_size=60
)


class _Timeline(RuleBasedStateMachine):
    """Any order of appends, holes, trims, rotations and restarts, beside a list that does the same."""

    kind: str

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._table = SeriesTable()
        self._log = open_log(self.kind, Path(self._folder.name), self._table)
        self._expected: list[tuple[int, list[Row] | Hole, int]] = []
        """Entry id, content, time of the newest sample."""

    @rule(rows=drawn_rows)
    def append(self, rows: list[tuple[int, int, float]]) -> None:
        written = block(self._table, rows)
        entry = self._log.append(written)
        assert entry > self._last()
        self._expected.append((entry, rows_of(written, self._table), int(written.t_ms.max())))

    @rule(after=st.integers(NOW_MS - 60, NOW_MS), length=st.integers(1, 60), metric=st.sampled_from(["", "m1"]))
    def append_hole(self, after: int, length: int, metric: str) -> None:
        hole = Hole(after, after + length, metric)
        self._expected.append((self._log.append_hole(hole), hole, -1))

    @rule(before=st.integers(NOW_MS - 60, NOW_MS + 60))
    def trim(self, before: int) -> None:
        self._log.trim(before)
        left = {e.id for e in entries(self._log)}
        dropped = [e for e in self._expected if e[0] not in left]
        assert dropped == self._expected[: len(dropped)]
        assert all(until_ms <= before for _, _, until_ms in dropped)
        assert len(dropped) < len(self._expected) or not self._expected
        del self._expected[: len(dropped)]

    @rule()
    def rotate(self) -> None:
        self._table = SeriesTable()
        self._log.rotate(self._table)

    @rule()
    def restart(self) -> None:
        if self.kind == "files":
            self._log.close()
            self._table = SeriesTable()
            self._log = open_log(self.kind, Path(self._folder.name), self._table)

    @rule(data=st.data())
    def read_after_any_entry(self, data: st.DataObject) -> None:
        after = data.draw(st.sampled_from([0] + [e[0] for e in self._expected]))
        assert self._read(after) == [(i, content) for i, content, _ in self._expected if i > after]

    @invariant()
    def the_last_id_is_the_newest(self) -> None:
        assert self._log.last_id() == self._last()

    @invariant()
    def the_oldest_is_the_smallest(self) -> None:
        times = [t for _, content, _ in self._expected if isinstance(content, list) for _, t, _ in content]
        assert self._log.oldest_ms() == min(times, default=None)

    def teardown(self) -> None:
        assert self._read(0) == [(i, content) for i, content, _ in self._expected]
        self._log.close()
        self._folder.cleanup()

    def _last(self) -> int:
        return self._expected[-1][0] if self._expected else 0

    def _read(self, after: int) -> list[tuple[int, list[Row] | Hole | None]]:
        table = SeriesTable()
        read = self._log.read(after, table)
        return [(e.id, e.hole if e.block is None else rows_of(e.block, table)) for e in read]


class _MemoryTimeline(_Timeline):
    kind = "memory"


class _FilesTimeline(_Timeline):
    kind = "files"


class _RedisTimeline(_Timeline):
    kind = "redis"

    def __init__(self) -> None:
        Servers.redis.cli("flushall")
        super().__init__()


for _machine in (_MemoryTimeline, _FilesTimeline, _RedisTimeline):
    _machine.TestCase.settings = settings(max_examples=40, stateful_step_count=25)

TestMemoryTimeline = _MemoryTimeline.TestCase
TestFilesTimeline = _FilesTimeline.TestCase
TestRedisTimeline = _RedisTimeline.TestCase
