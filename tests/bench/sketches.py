"""`make bench-sketches`: updates, merges and estimates per second of CPU of all accumulators, and their bytes.

Beside them the objects of `datasketches` and `ddsketch`, one per group in a Python loop. Writes
docs/benchmarks-sketches.md.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench import usage
from tests.bench.sketch_subjects import SUBJECTS, Input, Subject

PATH = Path(__file__).resolve().parents[2] / "docs" / "benchmarks-sketches.md"
GROUPS = (1, 100, 10_000, 100_000)
REPEATS = 3


@dataclass(frozen=True)
class Figures:
    """One subject with one number of groups."""

    subject: Subject
    groups: int
    values: int
    updates: float
    """Values a second."""
    merges: float
    """Groups merged into another a second."""
    estimates: float
    """Groups answered a second."""
    group_bytes: float

    def row(self) -> str:
        size = f"{self.group_bytes:,.0f}" if self.group_bytes else "–"
        rates = " | ".join(f"{rate / 1e6:.3g}" for rate in (self.updates, self.merges, self.estimates))
        return f"| {self.subject.title} | {self.groups:,} | {self.values:,} | {rates} | {size} |"


def drawn(values: int, groups: int, seed: int = 1) -> Input:
    """Lognormal values, sorted by group."""
    draw = np.random.default_rng(seed)
    group = np.sort(draw.integers(0, groups, values)).astype(np.int32)
    return Input(draw.lognormal(0, 2, values), group, groups)


def best_s(run: Callable[[], Any]) -> float:
    """Seconds of CPU of the cheapest of some runs: one thread does all, so others' load does not count."""
    times = []
    for _ in range(REPEATS):
        begun = time.process_time()
        run()
        times.append(time.process_time() - begun)
    return max(min(times), 1e-9)


def measure(subject: Subject, groups: int, most_values: int) -> Figures:
    """One row; a first pass compiles and warms."""
    values = min(subject.most_values, most_values)
    data, warm = drawn(values, groups), drawn(min(values, 1000), min(groups, 10))
    subject.estimate(subject.merge(subject.build(warm), subject.build(warm)))
    states: list[Any] = []
    other = subject.build(drawn(values, groups, 2))
    build_s = best_s(lambda: states.append(subject.build(data)))
    ask_s = best_s(lambda: subject.estimate(states[0]))
    held = subject.size_bytes(states[0]) / groups
    join_s = best_s(lambda: subject.merge(states.pop(), other))
    return Figures(subject, groups, values, values / build_s, groups / join_s, groups / ask_s, held)


def page(figures: Sequence[Figures]) -> str:
    machine = f"{usage.cpu_model()}, {usage.cores()} cores, {usage.memory_gib():.0f} GiB of memory"
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "datasketches", "ddsketch"))
    rows = "\n".join(one.row() for one in figures)
    return f"""# Sketches, measured

Written by `make bench-sketches` (`tests/bench/sketches.py`); not edited by hand. {machine}; {versions}; one thread.

Lognormal values, spread evenly over the groups. Ours take all groups at once from columns, in any order, and release
the GIL; objects of other packages are one per group, called in a Python loop with a group's values as one array (one
by one where a package takes no arrays), and are given the values sorted by group. Best of {REPEATS}; a merge is of two
states of all groups. Million a second of CPU; bytes are those of our columns, and of others' serialised form (of
ddsketch its bins).

| sketch | groups | values | updates, M/s | merges, M groups/s | estimates, M groups/s | bytes a group |
| --- | --: | --: | --: | --: | --: | --: |
{rows}
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="make bench-sketches", description=__doc__)
    parser.add_argument("--values", type=int, default=1_000_000, help="most values of a run")
    parser.add_argument("--only", default="", help="subjects whose title has this; printed and not written")
    options = parser.parse_args(arguments)
    figures = []
    for subject in SUBJECTS:
        if options.only in subject.title:
            for groups in (g for g in GROUPS if g <= subject.most_groups):
                figures.append(measure(subject, groups, options.values))
                print(figures[-1].row(), flush=True)
    if not options.only:
        PATH.write_text(page(figures), "utf-8")


if __name__ == "__main__":
    main()
