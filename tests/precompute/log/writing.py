"""A process that appends numbered samples without end and prints each number once it is acknowledged.

Arguments: the log's folder, the first number.
"""

import os
import sys
from itertools import count
from pathlib import Path

from precompute.labels import SeriesTable
from tests.precompute.log.drawn import NOW_MS, OpenFiles, block


def main(folder: str, first: str) -> None:
    table = SeriesTable()
    log = OpenFiles(Path(folder))(table, segment_bytes=5000)
    for number in count(int(first)):
        log.append(block(table, [(number % 50, NOW_MS + number, float(number))]))
        os.write(1, f"{number}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
