"""`make coverage`: how much of the corpus a plan serves, and how much smaller its summaries are than the series.

Writes the tables of docs/planning.md.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from precompute.aggregations import Aggregation
from precompute.catalog import Coverage, Requirement, cover, requirements
from precompute.evaluate.expr import duration_text
from precompute.planner.cardinality import HeadShape, OnHead
from query.promql.parse import parse
from query.workloads.coverage import COLLECTED_MS, Covered
from tests.corpus.planned import EVALUATION_MS, START_MS, in_force, planned
from tests.corpus.reading import FILE, VARIABLE, Question
from tests.corpus.worlds import LENGTH_MS
from tests.precompute.made_node import LOOKBACK_MS
from tests.running import ROOT

RANGES_MS = (COLLECTED_MS, 60_000, 75_000, 315_000)
PAGE = ROOT / "docs" / "planning.md"
BEGIN, END = "<!-- written by make coverage -->\n", "<!-- until here -->\n"
_SHARES = (0.1, 0.25, 0.5)


def served_table(found: Sequence[tuple[int, Covered]]) -> Iterator[str]:
    yield "| range | parsed | eligible | served | share | aggregations |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for range_ms, one in found:
        served = len(one.served)
        yield (
            f"| {duration_text(range_ms)} | {one.parsed:,} | {one.eligible:,} | {served:,} | "
            f"{served / one.eligible:.1%} | {len(one.plan.aggregations):,} |"
        )


def reason_table(one: Covered) -> Iterator[str]:
    yield "| expressions | why some selector of theirs is not served |"
    yield "| ---: | --- |"
    for reason, count in one.reasons.most_common():
        yield f"| {count} | {reason} |"


def held_line(one: Covered) -> str:
    """How many of the served are only for the one value that a variable was filled with."""
    kept = defaultdict[tuple[str, ...], list[Aggregation]](list)
    for aggregation in one.plan.aggregations:
        kept[aggregation.metrics].append(aggregation)
    held = 0
    for query in one.served:
        found = requirements(parse(query.forms[0][1]), LOOKBACK_MS, EVALUATION_MS)
        read = [cover(need, kept[need.metrics]) for need in found if isinstance(need, Requirement)]
        held += any(isinstance(c, Coverage) and VARIABLE in str(c.aggregation.expr) for c in read)
    share = (len(one.served) - held) / one.eligible
    return (
        f"In {held} of the served a filter that a variable fills in stays inside a join, so that an aggregation serves "
        f"one value only. Without them {share:.1%} are served."
    )


def saving_lines(one: Covered, queries: int, seed: int) -> Iterator[str]:
    """Groups ÷ series of the aggregations of some served expressions, over generated series."""
    texts = sorted({query.forms[0][1] for query in one.served})
    chosen = [Question.of(text) for text in Random(seed).sample(texts, queries)]
    shares = list[float]()
    with tempfile.TemporaryDirectory(prefix="asap-coverage-") as folder:
        for core, _ in in_force(chosen, one.plan, Path(folder), seed):
            head = OnHead(core.source, START_MS + LENGTH_MS // 2, core.clock)
            for kept in core.aggregations:
                shape = head.shape(kept.expr, kept.lookback_ms)
                if isinstance(shape, HeadShape) and shape.series:
                    shares.append(shape.groups(kept.labels, kept.without) / shape.series)
    parts = ", ".join(f"{sum(s <= share for s in shares) / len(shares):.0%} at most {share:g}" for share in _SHARES)
    yield (
        f"Groups ÷ series of {len(shares)} aggregations of {queries} served expressions, over generated series "
        f"(seed {seed}): median {statistics.median(shares):.2f}; {parts}."
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make coverage", description=__doc__)
    parser.add_argument("--folder", type=Path, default=os.environ.get("CORPUS_DIR") or "../shared/corpus")
    parser.add_argument("--queries", type=int, default=300, help="served expressions whose groups are counted")
    parser.add_argument("--seed", type=int, default=Random().randrange(1 << 32))
    options = parser.parse_args(arguments)
    if not (options.folder / FILE).exists():
        print(f"coverage: needs {FILE} in --folder or CORPUS_DIR", file=sys.stderr)
        return 2
    found = [(range_ms, planned(options.folder, range_ms)) for range_ms in RANGES_MS]
    first = found[0][1]
    saving = saving_lines(first, options.queries, options.seed)
    lines = [*served_table(found), "", *reason_table(first), "", held_line(first), "", *saving, ""]
    print("\n".join(lines))
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + "\n".join(lines) + END + rest.partition(END)[2], "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
