"""`make differential`: random queries over random series, answered alike by a real Prometheus and by the head.

Each mismatch is printed with what repeats it: the seed, the world's number, the query and its steps.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from query.promql.parse import parse
from tests.bench.client import Client
from tests.differential.grammar import Grammar
from tests.differential.known import Case, reason_for
from tests.differential.outcomes import Asked, Outcome, differences
from tests.differential.sides import FLAGS, Here, There, translated
from tests.differential.world import LENGTH_MS, World, draw, write_request
from tests.ingest.node import NOW_MS
from tests.running import prometheus

QUERIES_PER_WORLD = 250
_APART_MS = 3_600_000
_AROUND_MS = 60_000
_OFF_MS = 950
_STEPS_MS = (7_000, 15_000, 30_000, 60_000, 61_000)


@dataclass
class Tally:
    """What became of the queries; `wrong` holds a text per mismatch, `lacking` the features not known yet."""

    outcomes: Counter[str] = field(default_factory=Counter)
    lacking: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{count} {name}" for name, count in self.outcomes.most_common()]
        parts.append(f"{self.known.total()} known to differ")
        parts += [f"{count} need {feature}" for feature, count in self.lacking.most_common()]
        return f"{', '.join(parts)}; {len(self.wrong)} wrong"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make differential", description=__doc__)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=Random().randrange(1 << 32))
    options = parser.parse_args(arguments)
    binary = shutil.which("prometheus")
    if binary is None:
        print("differential: needs the program prometheus (Debian package prometheus)", file=sys.stderr)
        return 2
    print(f"differential: seed {options.seed}", flush=True)
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="asap-differential-") as folder:
        for done in compare(binary, Path(folder), options.seed, options.queries, tally):
            if done % 20 == 0:
                print(f"differential: {done * QUERIES_PER_WORLD} queries: {tally}", flush=True)
    print(f"differential: {tally}")
    print("\n".join(f"    {count:6} {reason}" for reason, count in tally.known.most_common()))
    print("\n".join(tally.wrong[:100]))
    return 1 if tally.wrong else 0


def compare(binary: str, folder: Path, seed: int, queries: int, tally: Tally) -> Iterator[int]:
    """Ask so many queries of both and count into `tally`; yields after each world how many there were."""
    with prometheus(binary, folder / "prometheus", "global: {}\n", *FLAGS) as program, Client(program.url) as client:
        there = There(client)
        for number in range(-(-queries // QUERIES_PER_WORLD)):
            random = Random(f"{seed} {number}")
            start_ms = NOW_MS + number * _APART_MS
            world = draw(random, start_ms)
            request = write_request(world)
            there.write(request)
            here = Here(folder / f"world-{number}", request, start_ms + LENGTH_MS)
            count = min(QUERIES_PER_WORLD, queries - number * QUERIES_PER_WORLD)
            for asked in (_question(random, start_ms) for _ in range(count)):
                _compare(asked, here, there, world, f"seed {seed}, world {number}", tally)
            yield number + 1


def _question(random: Random, start_ms: int) -> Asked:
    """An instant or a range query, at times where no sample lies on an edge."""

    def moment(before_ms: int = 0) -> int:
        return start_ms + random.randrange(-before_ms // 1000, LENGTH_MS // 1000) * 1000 + _OFF_MS

    begin_ms = moment(_AROUND_MS)
    if random.random() < 0.5:
        return Asked(Grammar(random, (moment(), moment())).instant(), begin_ms, begin_ms, 0)
    step_ms = random.choice(_STEPS_MS)
    end_ms = begin_ms + random.randrange(25) * step_ms
    return Asked(Grammar(random, (moment(), moment())).ranged(), begin_ms, end_ms, step_ms)


def _compare(asked: Asked, here: Here, there: There, world: World, place: str, tally: Tally) -> None:
    if feature := here.lacks(asked.text):
        tally.lacking[feature] += 1
        return
    theirs, ours = there.ask(asked), here.ask(asked)
    found = differences(asked, ours, theirs)
    tally.outcomes[_word(theirs)] += 1
    case = Case(asked, parse(translated(asked.text)), world, ours, theirs)
    if found and (reason := reason_for(case)):
        tally.known[reason] += 1
    elif found:
        tally.wrong.append(f"{place}: {asked}\n    " + "\n    ".join(found[:4]))


def _word(outcome: Outcome) -> str:
    if outcome.error:
        return f"error {outcome.error}"
    return "answers" if outcome.points or outcome.text else "empty"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
