"""`make corpus`: every expression of the corpus, answered alike by a real Prometheus and by ASAP over the same series.

Each mismatch is printed with what repeats it: the seed, the world's number, the query and its steps.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import urllib.parse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from precompute.clock import SystemClock
from tests.bench.client import WRITE_HEADERS, Client
from tests.corpus.reading import FILE, Question, filled, questions
from tests.corpus.worlds import APART_MS, Place, apart
from tests.differential.known import Case, reason_for
from tests.differential.outcomes import Asked, Outcome, differences, of_json
from tests.differential.sides import FLAGS
from tests.e2e.talking import FORM, seconds
from tests.ingest.wire import snappy
from tests.running import asap, prometheus

_DRAWS = 3
_AGE_MS = 18 * 86_400_000
_CONFIG: dict[str, Any] = {
    "engine": {"minibatch": {"acceptance_age": f"{_AGE_MS // 1000}s"}},
    "head": {"retention": f"{_AGE_MS // 1000}s", "max_bytes": "8GiB"},
}


@dataclass
class Tally:
    """What became of the expressions; `wrong` holds a text per mismatch."""

    asked: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)
    queries: int = 0
    samples: int = 0
    known: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        answered, alone = len(self.answered), len(self.answered - self.filled)
        refused, empty = len(self.refused - self.answered), len(self.asked - self.answered - self.refused)
        return (
            f"{len(self.asked)} expressions, {self.queries} queries, {self.samples:,} samples: {answered} answered "
            f"({answered / max(1, len(self.asked)):.1%}; {alone} of them as they stand), {empty} empty, "
            f"{refused} refused; {self.known.total()} queries known to differ, {len(self.wrong)} expressions wrong"
        )


def compare(binary: str, folder: Path, seed: int, chosen: Sequence[Question], tally: Tally) -> Iterator[int]:
    """Ask them of both and count into `tally`; yields after each world its number.

    What finds nothing is asked again over other series, a few times.
    """
    now_ms = SystemClock().now_ms() // APART_MS * APART_MS
    next_ms, number = now_ms - _AGE_MS + APART_MS, 0
    with (
        asap(folder / "asap", _CONFIG) as ours,
        prometheus(binary, folder / "prometheus", "global: {}\n", *FLAGS) as theirs,
        Client(ours.url) as here,
        Client(theirs.url) as there,
    ):
        left = [*chosen, *(other for question in chosen if (other := filled(question)))]
        for _ in range(_DRAWS):
            for group in apart(left):
                assert next_ms < now_ms - APART_MS, "more worlds than hours that a head may hold"
                random = Random(f"{seed} {number}")
                place = Place.drawn(group, random, next_ms)
                _fill(place, (here, there), tally)
                for question in group:
                    for asked in place.asked(question, random):
                        _compare(question, asked, place, (here, there), f"seed {seed}, world {number}", tally)
                next_ms, number = next_ms + APART_MS, number + 1
                yield number
            left = [question for question in left if question.origin not in tally.answered]


def _fill(place: Place, sides: Sequence[Client], tally: Tally) -> None:
    body = snappy(place.request())
    for side in sides:
        side.request("POST", "/api/v1/write", body, WRITE_HEADERS).checked(204)
    tally.samples += place.samples


def _compare(question: Question, asked: Asked, place: Place, sides: Sequence[Client], where: str, tally: Tally) -> None:
    (our_status, our_body), (their_status, their_body) = (_ask(side, asked) for side in sides)
    ours, theirs = of_json(json.loads(our_body)), of_json(json.loads(their_body))
    _count(question, theirs, tally)
    found = differences(asked, ours, theirs)
    if our_status != their_status:
        found.append(f"status {our_status} here, {their_status} there")
    if found and (reason := reason_for(Case(asked, question.expr, place.known(question), ours, theirs))):
        tally.known[reason] += 1
    elif found:
        tally.wrong[question.origin] = f"{where}: {asked}\n    " + "\n    ".join(found[:4])


def _count(question: Question, theirs: Outcome, tally: Tally) -> None:
    tally.queries += 1
    tally.asked.add(question.origin)
    if theirs.error:
        tally.refused.add(question.origin)
    elif theirs.points or theirs.text:
        if question.text != question.origin and question.origin not in tally.answered:
            tally.filled.add(question.origin)
        tally.answered.add(question.origin)


def _ask(side: Client, asked: Asked) -> tuple[int, bytes]:
    path, params = "/api/v1/query", {"query": asked.text, "time": seconds(asked.start_ms)}
    if asked.step_ms:
        path = "/api/v1/query_range"
        params = {"query": asked.text, "start": seconds(asked.start_ms), "end": seconds(asked.end_ms),
                  "step": seconds(asked.step_ms)}  # fmt: skip
    reply = side.request("POST", path, urllib.parse.urlencode(params).encode(), FORM)
    return reply.status, reply.body


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make corpus", description=__doc__)
    parser.add_argument("--queries", type=int, default=0, help="so many, chosen by the seed (default: all)")
    parser.add_argument("--seed", type=int, default=Random().randrange(1 << 32))
    parser.add_argument("--folder", type=Path, default=os.environ.get("CORPUS_DIR") or "../shared/corpus")
    options = parser.parse_args(arguments)
    binary = shutil.which("prometheus")
    if binary is None or not (options.folder / FILE).exists():
        print(f"corpus: needs the program prometheus and {FILE} in --folder or CORPUS_DIR", file=sys.stderr)
        return 2
    chosen = questions(options.folder)
    Random(options.seed).shuffle(chosen)
    chosen = chosen[: options.queries or None]
    print(f"corpus: seed {options.seed}", flush=True)
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="asap-corpus-") as folder:
        for number in compare(binary, Path(folder), options.seed, chosen, tally):
            if number % 20 == 0:
                print(f"corpus: {number} worlds: {tally}", flush=True)
    print(f"corpus: {tally}")
    print("\n".join(f"    {count:6} {reason}" for reason, count in tally.known.most_common()))
    print("\n".join(list(tally.wrong.values())[:100]))
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
