"""What is particular to the log in files: segments, limits of the disk, the lock."""

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from precompute.clock import ManualClock
from precompute.errors import LogDamaged, Rejected
from precompute.labels import SeriesTable
from precompute.log import segment as seg
from precompute.log import writer
from precompute.log.base import Hole
from precompute.samples import Block
from tests.precompute.log.drawn import NOW_MS, OpenFiles, block, entries, rows_of, samples


@pytest.fixture
def table() -> SeriesTable:
    return SeriesTable()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def open_log(tmp_path: Path, clock: ManualClock) -> OpenFiles:
    return OpenFiles(tmp_path, clock)


def segments(open_log: OpenFiles) -> list[str]:
    return sorted(path.name for path in open_log.folder.glob("*.seg"))


def test_a_segment_ends_by_age(open_log: OpenFiles, clock: ManualClock, table: SeriesTable) -> None:
    log = open_log(table, segment_ms=1000)
    one = block(table, [(1, NOW_MS, 1.0)])
    log.append(one)
    clock.advance(999)
    log.append(one)
    assert segments(open_log) == [seg.file_name(1)]
    clock.advance(1)
    log.append(one)
    assert segments(open_log) == [seg.file_name(1), seg.file_name(3)]
    assert len(samples(log)) == 3


def test_a_segment_ends_by_size(open_log: OpenFiles, table: SeriesTable) -> None:
    log = open_log(table, segment_bytes=200)
    for _ in range(4):
        log.append(block(table, [(1, NOW_MS, 1.0)]))
    assert segments(open_log) == [seg.file_name(1), seg.file_name(3)]


def test_each_segment_can_be_read_alone(open_log: OpenFiles, table: SeriesTable) -> None:
    log = open_log(table)
    one = block(table, [(1, NOW_MS, 1.0), (2, NOW_MS, 2.0)])
    log.append(one)
    log.rotate(table)
    log.append(one)
    log.close()
    (open_log.folder / seg.file_name(1)).unlink()
    assert samples(open_log()) == rows_of(one, table)


def test_a_series_is_defined_once_in_a_segment(open_log: OpenFiles, table: SeriesTable) -> None:
    log = open_log(table)
    one = block(table, [(1, NOW_MS, 1.0)])
    log.append(one)
    first = log.size_bytes()
    log.append(one)
    second = log.size_bytes() - first
    log.append(one)
    assert log.size_bytes() - first == 2 * second
    assert b"node-1" in (data := (open_log.folder / seg.file_name(1)).read_bytes())
    assert data.count(b"node-1") == 1


def test_a_sealed_log_opens_without_reading_its_records(open_log: OpenFiles, table: SeriesTable) -> None:
    log = open_log(table)
    log.append(block(table, [(1, NOW_MS, 1.0), (2, NOW_MS - 9, 2.0)]))
    log.append_hole(Hole(NOW_MS, NOW_MS + 50))
    log.close()
    path = open_log.folder / seg.file_name(1)
    blank = bytes(path.stat().st_size - seg.HEADER_BYTES - seg.FOOTER_BYTES)
    data = path.read_bytes()
    path.write_bytes(data[: seg.HEADER_BYTES] + blank + data[-seg.FOOTER_BYTES :])
    again = open_log()
    assert (again.last_id(), again.oldest_ms(), again.damaged_records) == (2, NOW_MS - 9, 0)
    assert [(e.id, e.hole) for e in entries(again)] == [(2, Hole(NOW_MS - 10, NOW_MS))]
    assert again.damaged_records == 1


@pytest.mark.parametrize("footer_counts_holes", [False, True])
def test_a_hole_ages_ahead_keeps_no_segment_and_neither_does_a_footer_that_counts_it(
    open_log: OpenFiles, table: SeriesTable, clock: ManualClock, footer_counts_holes: bool
) -> None:
    log = open_log(table)
    log.append(block(table, [(1, NOW_MS, 1.0)]))
    log.append_hole(Hole(NOW_MS * 1000 - 1, NOW_MS * 1000, "m"))
    log.close()
    if footer_counts_holes:
        path = open_log.folder / seg.file_name(1)
        data = path.read_bytes()
        header = seg.unpack_header(data, path)
        assert header is not None
        wide = seg.SegmentState(len(data), 2, NOW_MS - 1, NOW_MS * 1000, NOW_MS)
        path.write_bytes(data[: -seg.FOOTER_BYTES] + seg.pack_footer(wide, header.mark))
    clock.advance(600_000)
    again = open_log(table)
    newest = again.append(block(table, [(1, NOW_MS + 600_000, 1.0)]))
    again.trim(NOW_MS + 700_000)
    assert [e.id for e in entries(again)] == [newest]


def test_no_id_is_given_twice_over_restarts(open_log: OpenFiles) -> None:
    given = []
    for _ in range(3):
        table = SeriesTable()
        log = open_log(table)
        given += [log.append(block(table, [(1, NOW_MS, 1.0)])) for _ in range(2)]
        log.close()
    assert given == sorted(set(given))
    assert [e.id for e in entries(open_log())] == given


def test_ids_rise_even_if_nothing_was_appended_before_a_restart(open_log: OpenFiles, table: SeriesTable) -> None:
    log = open_log(table)
    last = log.append(block(table, [(1, NOW_MS, 1.0)]))
    log.close()
    full = open_log(table, max_bytes=1)
    with pytest.raises(Rejected):
        full.append(Block(np.zeros(1, np.int32), np.full(1, NOW_MS), np.ones(1)))
    full.close()
    table = SeriesTable()
    log = open_log(table)
    assert log.last_id() == last
    assert log.append(block(table, [(1, NOW_MS, 1.0)])) > last
    assert len(samples(log)) == 2


def test_too_little_free_disk_refuses_everything_and_reads_go_on(open_log: OpenFiles, table: SeriesTable) -> None:
    log = open_log(table)
    log.append(block(table, [(1, NOW_MS, 1.0)]))
    log.close()
    full = open_log(table, min_free_disk=1 << 60)
    with pytest.raises(Rejected, match=r"log\.min_free_disk"):
        full.append(block(table, [(1, NOW_MS, 1.0)]))
    with pytest.raises(Rejected, match=r"log\.min_free_disk"):
        full.append_hole(Hole(1, 2))
    assert len(samples(full)) == 1


@contextmanager
def files_end_at(length: int) -> Iterator[None]:
    """The kernel takes writes up to this length of a file, in part if need be, and refuses the rest."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (length, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("room", [0, 1, 43, 44, 60])
def test_a_write_that_the_disk_takes_in_part_or_not_at_all_leaves_no_trace(
    open_log: OpenFiles, table: SeriesTable, room: int
) -> None:
    log = open_log(table)
    one, other = block(table, [(1, NOW_MS, 1.0)]), block(table, [(2, NOW_MS, 2.0)])
    log.append(one)
    size = log.size_bytes()
    with files_end_at(size + room), pytest.raises(Rejected, match="cannot write"):
        log.append(other)
    path = open_log.folder / seg.file_name(1)
    assert path.stat().st_size == log.size_bytes() == size
    assert log.append(other) == 2
    assert samples(log) == rows_of(one, table) + rows_of(other, table)


def test_a_segment_that_cannot_be_begun_refuses_the_write(open_log: OpenFiles, table: SeriesTable) -> None:
    log = open_log(table)
    one = block(table, [(1, NOW_MS, 1.0)])
    with files_end_at(10), pytest.raises(Rejected, match="cannot begin a segment"):
        log.append(one)
    assert log.append(one) == 1


def test_a_segment_without_room_for_its_footer_is_still_whole(open_log: OpenFiles, table: SeriesTable) -> None:
    log = open_log(table)
    log.append(block(table, [(1, NOW_MS, 1.0)]))
    kept = samples(log)
    with files_end_at(log.size_bytes() + 20):
        log.close()
    again = open_log()
    assert (samples(again), again.torn_bytes, again.damaged_records) == (kept, 0, 0)


def test_after_a_failed_sync_nothing_is_accepted(
    open_log: OpenFiles, table: SeriesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(table, fsync_every_append=True)
    one = block(table, [(1, NOW_MS, 1.0)])
    log.append(one)

    def fails(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(writer.os, "fsync", fails)
        with pytest.raises(Rejected, match="cannot sync"):
            log.append(one)
    with pytest.raises(Rejected, match="cannot sync"):
        log.append(one)
    assert (log.last_id(), len(samples(log))) == (1, 1)


def test_a_folder_in_use_is_refused_by_name(open_log: OpenFiles) -> None:
    log = open_log()
    with pytest.raises(LogDamaged, match=f"{open_log.folder} is in use"):
        open_log()
    log.close()
    open_log().close()


def test_another_versions_segment_is_refused_by_name(open_log: OpenFiles, table: SeriesTable) -> None:
    log = open_log(table)
    log.append(block(table, [(1, NOW_MS, 1.0)]))
    log.close()
    path = open_log.folder / seg.file_name(1)
    data = path.read_bytes()
    head = data[:8] + (99).to_bytes(4, "little") + data[12 : seg.HEADER_BYTES - 4]
    path.write_bytes(head + seg.zlib.crc32(head).to_bytes(4, "little") + data[seg.HEADER_BYTES :])
    with pytest.raises(LogDamaged, match=f"{path} was written by another version"):
        open_log()
    path.write_bytes(data)
    assert len(samples(open_log())) == 1


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogDamaged, match="cannot open the sample log in"):
        OpenFiles(tmp_path / "file" / "log")()


def test_a_folder_that_vanished_refuses_writes(open_log: OpenFiles, table: SeriesTable) -> None:
    log = open_log(table)
    one = block(table, [(1, NOW_MS, 1.0)])
    log.append(one)
    moved = open_log.folder.with_name("moved")
    os.rename(open_log.folder, moved)
    with pytest.raises(Rejected, match="cannot see how full"):
        log.append(one)


def test_a_long_block_becomes_entries_of_bounded_length(open_log: OpenFiles, table: SeriesTable) -> None:
    sid = np.full(writer.MAX_ROWS + 5, block(table, [(1, 0, 0.0)]).sid[0], np.int32)
    log = open_log(table)
    log.append(Block(sid, NOW_MS + np.arange(len(sid)), np.arange(len(sid), dtype=np.float64)))
    read = entries(log)
    assert [e.id for e in read] == [1, 2]
    assert [len(e.block) for e in read if e.block is not None] == [writer.MAX_ROWS, 5]
    assert (np.concatenate([e.block.value for e in read if e.block is not None]) == np.arange(len(sid))).all()


def test_a_reader_beside_writes_and_trims_sees_whole_entries_in_order(open_log: OpenFiles, table: SeriesTable) -> None:
    log = open_log(table, segment_bytes=4000)
    wrong: list[str] = []
    done, trimmed = threading.Event(), [0]

    def read() -> None:
        while not done.is_set():
            last = log.last_id()
            found = entries(log)
            ids = [e.id for e in found]
            if ids != sorted(set(ids)) or not set(range(trimmed[0] + 1, last + 1)) <= set(ids):
                wrong.append(f"{ids}, though {last} were appended before and {trimmed[0]} dropped since")
            if any(e.block is None or set(e.block.value) != {e.id} for e in found):
                wrong.append("an entry with another's samples, or a hole")

    log.append(block(table, [(0, NOW_MS + 1, 1.0)]))
    reader = threading.Thread(target=read)
    reader.start()
    for i in range(2, 600):
        log.append(block(table, [(s, NOW_MS + i, float(i)) for s in range(i % 20 + 1)]))
        if i % 50 == 0:
            trimmed[0] = max(0, i - 100)
            log.trim(NOW_MS + trimmed[0])
    done.set()
    reader.join(timeout=60)
    assert not reader.is_alive()
    assert wrong == []
    assert entries(log)[0].id > 300


def test_syncs_beside_writes_and_rotations_do_no_harm(open_log: OpenFiles, table: SeriesTable) -> None:
    log = open_log(table, segment_bytes=200)
    done, refused = threading.Event(), []

    def sync() -> None:
        while not done.is_set():
            try:
                log.sync()
            except Rejected as reason:
                refused.append(str(reason))

    syncing = threading.Thread(target=sync)
    syncing.start()
    for i in range(300):
        log.append(block(table, [(1, NOW_MS + i, 1.0)]))
    done.set()
    syncing.join(timeout=60)
    assert not syncing.is_alive()
    assert refused == []
    assert len(samples(log)) == 300
