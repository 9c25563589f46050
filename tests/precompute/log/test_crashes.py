"""What is left of a log on disk after a crash, a damaged disk, or a kill."""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from precompute.labels import SeriesTable
from precompute.log.base import Hole
from precompute.log.files import FileSampleLog
from precompute.log.segment import HEADER_BYTES, MIN_MS
from tests.precompute.log.drawn import FLOOR_MS, NOW_MS, OpenFiles, Row, block, entries, samples

ROOT = Path(__file__).parents[3]
SMALL = [(3, NOW_MS + 5, 1.5), (4, NOW_MS + 6, 2.5)]
COMPRESSED = [(n % 7, NOW_MS + n % 11, float(n)) for n in range(300)]


def written(open_log: OpenFiles, last: list[tuple[int, int, float]] | Hole) -> FileSampleLog:
    """A log of two entries and a last one, still open."""
    table = SeriesTable()
    log = open_log(table)
    log.append(block(table, [(1, NOW_MS, 1.0), (2, NOW_MS, 2.0)]))
    log.append(block(table, [(1, NOW_MS + 1, 3.0)]))
    if isinstance(last, Hole):
        log.append_hole(last)
    else:
        log.append(block(table, last))
    return log


def only_segment(folder: Path) -> Path:
    (path,) = folder.glob("*.seg")
    return path


@pytest.mark.parametrize("last", [SMALL, COMPRESSED, Hole(1, 2, "m")], ids=["small", "compressed", "hole"])
def test_a_record_torn_at_any_byte_is_cut_off_and_all_before_it_stay(
    tmp_path: Path, last: list[tuple[int, int, float]] | Hole
) -> None:
    log = written(OpenFiles(tmp_path / "whole"), last)
    data, kept = only_segment(tmp_path / "whole").read_bytes(), samples(log)
    start = _start_of_last_record(log, data)
    log.close()
    for length in range(start, len(data)):
        torn = OpenFiles(tmp_path / str(length)).copy_of(tmp_path / "empty")
        (torn.folder / "00000000000000000001.seg").write_bytes(data[:length])
        again = torn()
        assert again.torn_bytes == length - start
        assert [(e.id, e.hole) for e in entries(again)] == [(1, None), (2, None)]
        assert samples(again) == kept[:3]
        assert again.damaged_records == 0
        again.close()


def _start_of_last_record(log: FileSampleLog, data: bytes) -> int:
    mark = data[12:16]
    starts = [at for at in range(len(data)) if data[at : at + 4] == mark and at >= HEADER_BYTES]
    assert len(starts) == log.last_id() == 3
    return starts[-1]


def test_after_a_torn_record_the_log_goes_on_with_new_ids(tmp_path: Path) -> None:
    log = written(OpenFiles(tmp_path / "whole"), SMALL)
    torn = OpenFiles(tmp_path / "torn").copy_of(tmp_path / "whole")
    path = only_segment(torn.folder)
    os.truncate(path, path.stat().st_size - 1)
    table = SeriesTable()
    again = torn(table)
    entry = again.append(block(table, SMALL))
    assert entry > log.last_id()
    again.close()
    log.close()
    assert [e.id for e in entries(torn())] == [1, 2, entry]


def present_or_in_a_hole(log: FileSampleLog, rows: list[Row]) -> bool:
    left = samples(log)
    holes = [e.hole for e in entries(log) if e.hole]
    assert set(left) <= set(rows)
    assert len(left) == len(set(left))
    return all(row in left or any(h.touches(row[1] - 1, row[1], "") for h in holes) for row in rows)


@pytest.mark.parametrize("sealed", [True, False])
def test_no_flipped_bit_gives_a_wrong_sample_or_loses_one_silently(tmp_path: Path, sealed: bool) -> None:
    log = written(OpenFiles(tmp_path / "whole"), SMALL)
    rows = samples(log)
    if sealed:
        log.close()
    data = only_segment(tmp_path / "whole").read_bytes()
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        damaged = OpenFiles(tmp_path / str(at)).copy_of(tmp_path / "empty")
        (damaged.folder / "00000000000000000001.seg").write_bytes(flipped)
        again = damaged()
        assert present_or_in_a_hole(again, rows), f"byte {at}"
        again.close()
        again = damaged()
        assert present_or_in_a_hole(again, rows), f"byte {at}, opened twice"
        again.close()
    if not sealed:
        log.close()


def test_a_damaged_record_in_the_middle_is_a_hole_kept_aside_and_counted(tmp_path: Path) -> None:
    log = written(OpenFiles(tmp_path), SMALL)
    log.close()
    path = only_segment(tmp_path)
    data = bytearray(path.read_bytes())
    third = NOW_MS + 1
    data[data.index(np.float64(3.0).tobytes()[-2:], HEADER_BYTES)] ^= 1
    path.write_bytes(data)
    again = OpenFiles(tmp_path)()
    assert [(e.id, e.hole) for e in entries(again)] == [(1, None), (2, Hole(third - 1, third)), (3, None)]
    entries(again)
    assert again.damaged_records == 1
    assert len(list((tmp_path / "damaged").iterdir())) == 1


def test_lost_definitions_make_a_hole_of_all_that_the_segment_held(tmp_path: Path) -> None:
    log = written(OpenFiles(tmp_path), SMALL)
    log.close()
    path = only_segment(tmp_path)
    data = bytearray(path.read_bytes())
    data[data.index(b"node-1")] ^= 1
    path.write_bytes(data)
    again = OpenFiles(tmp_path)()
    everything = Hole(NOW_MS - 1, NOW_MS + 6)
    assert [(e.id, e.hole) for e in entries(again)] == [(1, everything), (3, None)]
    assert [e.hole for e in entries(again, after=1)] == [everything, None]


def test_a_segment_without_a_readable_header_is_one_hole(tmp_path: Path) -> None:
    written(OpenFiles(tmp_path), SMALL).close()
    path = only_segment(tmp_path)
    data = b"\0" * 20 + path.read_bytes()[20:]
    path.write_bytes(data)
    OpenFiles(tmp_path)().close()
    again = OpenFiles(tmp_path)()
    assert path.read_bytes() == data
    assert [(e.id, e.hole) for e in entries(again)] == [(1, Hole(MIN_MS, NOW_MS + 60_000))]
    assert again.append_hole(Hole(1, 2)) > 3


def test_a_missing_segment_is_a_hole(tmp_path: Path) -> None:
    table = SeriesTable()
    log = OpenFiles(tmp_path)(table)
    for i in range(3):
        log.append(block(table, [(i, NOW_MS + i, 1.0)]))
        log.rotate(table)
    log.close()
    (tmp_path / "00000000000000000002.seg").unlink()
    again = OpenFiles(tmp_path)()
    assert [(e.id, e.hole) for e in entries(again)] == [(1, None), (2, Hole(FLOOR_MS, NOW_MS + 60_000)), (3, None)]
    assert [e.id for e in entries(again, after=2)] == [3]


def test_zeros_at_the_end_are_a_loss_and_no_torn_write(tmp_path: Path) -> None:
    log = written(OpenFiles(tmp_path / "whole"), SMALL)
    rows = samples(log)
    lost = OpenFiles(tmp_path / "lost").copy_of(tmp_path / "whole")
    log.close()
    path = only_segment(lost.folder)
    path.write_bytes(path.read_bytes() + bytes(100))
    again = lost()
    assert samples(again) == rows
    assert [(e.id, e.hole) for e in entries(again)][3:] == [(4, Hole(FLOOR_MS, NOW_MS + 60_000))]


def test_a_damaged_segment_stays_until_its_hole_is_old(tmp_path: Path) -> None:
    log = written(OpenFiles(tmp_path / "whole"), SMALL)
    lost = OpenFiles(tmp_path / "lost").copy_of(tmp_path / "whole")
    log.close()
    path = only_segment(lost.folder)
    path.write_bytes(path.read_bytes() + bytes(100))
    table = SeriesTable()
    again = lost(table)
    again.append(block(table, SMALL))
    again.trim(NOW_MS + 59_999)
    assert len(entries(again)) == 5
    again.trim(NOW_MS + 60_000)
    assert len(entries(again)) == 1


@pytest.mark.parametrize("seed", range(4))
def test_nothing_acknowledged_is_lost_or_doubled_by_kills(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    acknowledged: list[int] = []
    for life in range(4):  # numbers of its own for each, as one that was killed may have written more than it said
        acknowledged += _run_until_killed(tmp_path, first=1 + 10_000_000 * life, reports=rng.integers(1, 60))
    found = [t_ms - NOW_MS for _, t_ms, _ in samples(OpenFiles(tmp_path)())]
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found)
    assert len(set(found) - set(acknowledged)) <= 4


def _run_until_killed(folder: Path, first: int, reports: int) -> list[int]:
    """Numbers that a writing process acknowledged before it was killed."""
    command = [sys.executable, "-m", "tests.precompute.log.writing", str(folder), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        output, deadline = b"", time.monotonic() + 60
        while output.count(b"\n") < reports:
            assert select.select([process.stdout], [], [], deadline - time.monotonic())[0], "the writer is stuck"
            part = os.read(process.stdout.fileno(), 4096)
            assert part, "the writer ended by itself"
            output += part
        process.send_signal(signal.SIGKILL)
        output += process.stdout.read()
    return [int(line) for line in output.split(b"\n")[:-1]]
