"""The lines of each file by the modes in which they run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from coverage import Coverage

from tests.running import ROOT
from tests.shapes.measured import MODES, PACKAGES


@dataclass(frozen=True)
class File:
    """Lines of a file, each the first of a statement. `only` is by mode, in the order of MODES."""

    path: str
    both: frozenset[int]
    only: tuple[frozenset[int], ...]
    neither: frozenset[int]

    @property
    def package(self) -> str:
        return self.path.split("/")[0]


@dataclass(frozen=True)
class Counts:
    """How many lines; `only` is by mode, in the order of MODES."""

    both: int
    only: tuple[int, ...]
    neither: int

    @property
    def executable(self) -> int:
        return self.both + sum(self.only) + self.neither

    @property
    def share(self) -> float:
        """Of all lines that could run, those that run in one mode alone; 0 where there are none."""
        return sum(self.only) / self.executable if self.executable else 0.0

    @property
    def share_of_run(self) -> float:
        """The same, of the lines that ran at all."""
        run = self.executable - self.neither
        return sum(self.only) / run if run else 0.0


def counts(files: Iterable[File]) -> Counts:
    """Those of some files together."""
    chosen = list(files)
    only = tuple(sum(len(file.only[at]) for file in chosen) for at in range(len(MODES)))
    return Counts(sum(len(file.both) for file in chosen), only, sum(len(file.neither) for file in chosen))


def files(noted: Coverage) -> list[File]:
    """Every source of the packages, those included of which nothing ran, in the order of their paths."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [split(str(path.relative_to(ROOT)), *_lines(noted, path)) for path in paths]


def split(path: str, executable: frozenset[int], run: Sequence[frozenset[int]]) -> File:
    """run: the lines that ran, by mode."""
    anywhere = frozenset[int]().union(*run)
    both = frozenset.intersection(*run)
    return File(path, both, tuple(one - both for one in run), executable - anywhere)


def _lines(noted: Coverage, path: Path) -> tuple[frozenset[int], list[frozenset[int]]]:
    """The lines that can run, and those that did in each mode."""
    run = []
    for mode in MODES:
        noted.get_data().set_query_context(mode)
        _, statements, _, missing, _ = noted.analysis2(str(path))
        run.append(frozenset(statements).difference(missing))
    return frozenset(statements), run
