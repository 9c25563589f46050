"""`make chaos MINUTES=…`: a cluster under load, in which everything fails again and again, judged sample by sample.

    make chaos MINUTES=30 ARGS='--seed 7'

In each round there are faults for a minute; then all is mended, and every pane of the round is judged. In the end all
panes are judged once more. The last line is `N faults, N acknowledged, N lost, N twice, N wrong`.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from precompute.clock import SystemClock
from tests.chaos.faults import Weather, kinds
from tests.chaos.freshness import Freshness, watching
from tests.chaos.load import Sender, sending
from tests.chaos.oracle import Oracle, Verdict
from tests.chaos.setup import ACCEPTED_MS, CONFIG, COUNTS, LATENESS_MS, LEASE_S, WIDTH_MS
from tests.cluster.roles import Cluster, cluster, ground, print_logs
from tests.running import Program, poll_until

ROUND_S = 60.0
ENDS_SHOWN = 10
SERVED_S = 30.0
"""How long after all is well the last panes may take."""
STORED_S = 240.0
"""How long the first of them may take to leave for the database: a pack, the acceptance age, and two minutes more."""
SENDERS, PAIRS = ("p", "q", "r", "s"), 40


@dataclass(frozen=True)
class Outcome:
    """What a run has found."""

    weather: Weather
    verdict: Verdict
    freshness: Freshness
    stored: int
    """Pane ends that were judged and had left for the database in the end."""
    seconds: float

    @property
    def last_line(self) -> str:
        found = self.verdict
        return (
            f"{len(self.weather.struck)} faults, {found.acknowledged} acknowledged, {found.lost} lost, "
            f"{found.twice} twice, {found.wrong} wrong"
        )

    def _ended(self) -> list[tuple[str, int]]:
        return Counter(self.weather.ended).most_common(ENDS_SHOWN)

    @property
    def is_right(self) -> bool:
        return not (self.verdict.lost or self.verdict.twice or self.verdict.wrong)

    def lines(self) -> list[str]:
        """All that is reported, `last_line` last."""
        found = self.verdict
        counted = ", ".join(f"{kind} {n}" for kind, n in sorted(self.weather.counted().items()))
        panes = ", ".join(f"{n} from {tier}" for tier, n in sorted(found.panes.items()))
        return [
            *found.said,
            *(f"ended by itself, {n} times, and was started again: {one}" for one, n in self._ended()),
            f"faults: {counted}",
            f"panes judged: {panes}; {found.unjudged} that look at a doubtful sample were not; those of {self.stored} "
            "ends came from the database in the end",
            f"lost by design, by a Redis that syncs each second: {found.lost_by_design}",
            self.freshness.said(),
            f"duration: {self.seconds:.0f} s",
            self.last_line,
        ]


def main(arguments: Sequence[str]) -> int:
    asked = _parsed(arguments)
    print(f"chaos: seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="asap-chaos-", dir=asked.tmp) as folder:
        outcome = troubled(asked.minutes, asked.seed, Path(folder), asked.away)
    print("\n".join(outcome.lines()), flush=True)
    return 0 if outcome.is_right else 1


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="of faults, in rounds of one (default: 10)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="default: drawn")
    parser.add_argument("--away", type=float, default=60.0, help="longest absence of PostgreSQL, in s (default: 60)")
    parser.add_argument("--tmp", help="where all is kept meanwhile (default: TMPDIR)")
    return parser.parse_args(arguments)


def troubled(minutes: float, seed: int, folder: Path, away_s: float) -> Outcome:
    """A whole run, in `folder`."""
    with ground("everysec", "always") as below, cluster(folder, below, CONFIG, COUNTS) as running:
        outcome = _rounds(running, max(1, round(60 * minutes / ROUND_S)), random.Random(seed), away_s)
        if not outcome.is_right:
            print_logs(running.roles)
        return outcome


def _rounds(running: Cluster, rounds: int, draw: random.Random, away_s: float) -> Outcome:
    clock = SystemClock()
    begin_s = clock.monotonic_s()
    urls = [role.url for role in running.ingests]
    senders = [Sender(name, PAIRS, urls, clock, draw.randrange(1 << 32)) for name in SENDERS]
    weather = Weather(running, kinds(LEASE_S, away_s), draw, clock)
    oracle = Oracle(running, senders, clock.now_ms(), ACCEPTED_MS)
    freshness = Freshness(lambda: _answering(running), clock, random.Random(draw.randrange(1 << 32)))
    with sending(senders) as finish, watching(freshness):
        for number in range(rounds):
            weather.storm(ROUND_S)
            _judge(oracle, weather, clock.now_ms(), senders)
            print(f"chaos: round {number + 1}: {len(weather.struck)} faults so far", file=sys.stderr, flush=True)
        finish()
    stored = poll_until(oracle.stored, STORED_S, "panes that were judged leave for the database", 2)
    oracle.judge_again()
    oracle.judge_claims(freshness.claims)
    return Outcome(weather, oracle.verdict, freshness, stored, clock.monotonic_s() - begin_s)


def _judge(oracle: Oracle, weather: Weather, until_ms: int, senders: Sequence[Sender]) -> None:
    weather.calm()
    refused = [f"{sender.name}: {sender.refused}" for sender in senders if sender.refused]
    assert not refused, f"senders were refused: {refused}"
    oracle.judge(until_ms // WIDTH_MS * WIDTH_MS, weather.struck, SERVED_S + (WIDTH_MS + LATENESS_MS) / 1000)


def _answering(running: Cluster) -> list[Program]:
    """Query engines that were not killed just now."""
    return [role.program for role in running.query_engines if role.program is not None]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
