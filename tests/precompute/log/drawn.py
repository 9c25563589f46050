"""Series, blocks and what a log says, in a form that tests can compare."""

import struct
from pathlib import Path

import numpy as np

from precompute.clock import ManualClock
from precompute.labels import Labels, SeriesTable
from precompute.log.base import Entry, SampleLog
from precompute.log.files import FileSampleLog
from precompute.samples import Block

NOW_MS = 1_700_000_000_000
FLOOR_MS = NOW_MS - 3_600_000

Row = tuple[Labels, int, bytes]
"""Labels, time, and the value's bits: NaNs compare too."""


def labels(number: int) -> Labels:
    return (("__name__", f"m{number % 3}"), ("instance", f"node-{number}"), ("job", "ü"))


def block(table: SeriesTable, rows: list[tuple[int, int, float]]) -> Block:
    """A block of (series number, time, value)."""
    return Block(
        np.array([table.intern(labels(number)) for number, _, _ in rows], np.int32),
        np.array([t_ms for _, t_ms, _ in rows], np.int64),
        np.array([value for _, _, value in rows], np.float64),
    )


def rows_of(entry_block: Block, table: SeriesTable) -> list[Row]:
    columns = zip(entry_block.sid.tolist(), entry_block.t_ms.tolist(), entry_block.value, strict=True)
    return [(table.labels_of(sid), t_ms, struct.pack("<d", value)) for sid, t_ms, value in columns]


def entries(log: SampleLog, after: int = 0) -> list[Entry]:
    return list(log.read(after, SeriesTable()))


def samples(log: SampleLog) -> list[Row]:
    """Every sample of the log, in order, read by somebody who knows no series yet."""
    table = SeriesTable()
    return [row for e in log.read(0, table) if e.block is not None for row in rows_of(e.block, table)]


class OpenFiles:
    """Opens a log in a folder with small limits, and again after a clean end or a crash."""

    def __init__(self, folder: Path, clock: ManualClock | None = None) -> None:
        self.folder, self.clock = folder, clock or ManualClock(NOW_MS)

    def __call__(self, table: SeriesTable | None = None, **other: object) -> FileSampleLog:
        options = {"max_bytes": 1 << 30, "min_free_disk": 0, "clock": self.clock, "floor_ms": lambda: FLOOR_MS}
        table = SeriesTable() if table is None else table
        return FileSampleLog(self.folder, table, **(options | other))  # type: ignore[arg-type]

    def copy_of(self, other: Path) -> "OpenFiles":
        """This folder as a crash of the other's writer would leave it now."""
        self.folder.mkdir()
        for path in other.glob("*.seg"):
            (self.folder / path.name).write_bytes(path.read_bytes())
        return self
