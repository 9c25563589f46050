"""Whether the cluster's answers are those that the acknowledged samples make, and nothing else.

    lost     acknowledged samples that are not there
    twice    samples that were counted again
    wrong    panes, by aggregation, that differ in any bit from the recount, whoever served them

An answer that came from summaries while things failed must have counted what was acknowledged some seconds before it,
and nothing that was never sent; one that did not is a wrong pane too.

A Redis that syncs each second may lose, when it is killed, what it acknowledged in the last seconds. Such samples are
counted apart, and panes that look at one are not judged: who has seen it and who has not is chance. So it is with a
sample that was acknowledged so late that it may have been refused as too old.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle

import numpy as np

from precompute.labels import Labels
from precompute.samples import I64, Bool
from tests.chaos.faults import LOG_KILLED, Struck
from tests.chaos.freshness import Claim
from tests.chaos.load import SCRAPE_MS, Acknowledged, Sender, columns
from tests.chaos.recount import Recount, Vectors, differing, shards_of
from tests.chaos.setup import COUNTED, KEPT, LOOKBACK_MS, REACH_MS, SHARDS, WIDTH_MS
from tests.cluster.roles import Cluster
from tests.e2e.talking import instant, points, tier
from tests.running import Program, poll_until

KNOWN_MS = 5000
"""What was acknowledged so long ago must be known to a query engine that is there."""
UNSYNCED_MS = 2000
"""What a Redis may lose that syncs each second."""
SHOWN = 3
"""Differences that are printed of one pane."""


@dataclass
class Verdict:
    """All that was found so far; panes are counted once for each aggregation."""

    acknowledged: int = 0
    lost: int = 0
    lost_by_design: int = 0
    unjudged: int = 0
    differ: set[tuple[str, int]] = field(default_factory=set)
    """(aggregation's query, pane end) of panes that were wrong whenever they were asked for."""
    surplus: dict[tuple[int, Labels], int] = field(default_factory=dict)
    """By pane end and group, how many samples too many were counted at the most."""
    panes: Counter[str] = field(default_factory=Counter)
    """Judged ones, by the tiers that served them."""
    said: list[str] = field(default_factory=list)
    """What is wrong, in words."""

    @property
    def wrong(self) -> int:
        return len(self.differ)

    @property
    def twice(self) -> int:
        return sum(self.surplus.values())


@dataclass(frozen=True)
class Slice:
    """Panes that were judged and are judged again at the end."""

    ends_ms: I64
    expected: dict[str, Vectors]


class Oracle:
    """Judges one stretch of time after another, and all of them again at the end."""

    def __init__(self, cluster: Cluster, senders: Sequence[Sender], begin_ms: int, acceptance_ms: int) -> None:
        self._cluster, self._senders, self._acceptance_ms = cluster, senders, acceptance_ms
        self._done_ms = begin_ms // WIDTH_MS * WIDTH_MS
        self._labels: list[Labels] = [one for sender in senders for one in sender.labels]
        self._shards = shards_of(self._labels, SHARDS)
        self._slices: list[Slice] = []
        self._doubtful_ms: list[int] = []
        self.verdict = Verdict()

    def judge(self, until_ms: int, struck: Sequence[Struck], served_s: float) -> None:
        """All panes up to `until_ms`, once summaries serve them or `served_s` has passed; all roles are well."""
        ends = np.arange(self._done_ms + WIDTH_MS, until_ms + 1, WIDTH_MS, dtype=np.int64)
        poll_until(lambda: self._settled_ms() >= until_ms, served_s, "every sample up to then is acknowledged", 0.2)
        if any(_forgets(one) for one in struck):
            self._start_query_engines_anew()
        self._await_summaries(int(ends[0]), int(ends[-1]), served_s)
        samples = columns(self._senders, self._done_ms - REACH_MS, until_ms)
        samples = samples.without(self._count_missing(samples, struck))
        recount = Recount(samples, self._labels, SHARDS, LOOKBACK_MS)
        self._slices.append(Slice(ends, {query: recount.at(query, ends) for query in KEPT}))
        self._compare(self._slices[-1], count=True)
        self._done_ms = int(ends[-1])

    def judge_again(self) -> None:
        """Every pane that was judged before: those too that left for the database meanwhile say what they said."""
        for part in self._slices:
            self._compare(part, count=False)

    def judge_claims(self, claims: Sequence[Claim]) -> None:
        """What was answered from summaries in the meantime; all samples are acknowledged now."""
        groups = [tuple((name, text) for name, text in labels if name == "g") for labels in self._labels]
        gauges = np.array([dict(labels)["__name__"] == "chaos_gauge" for labels in self._labels])
        for claim in claims:
            samples = columns(self._senders, claim.end_ms - WIDTH_MS, claim.end_ms)
            if not self._is_doubtful(claim.end_ms):
                self._judge_claim(claim, samples, groups, gauges[samples.series])

    def _judge_claim(self, claim: Claim, samples: Acknowledged, groups: Sequence[Labels], counts: Bool) -> None:
        known = samples.heard_ms < claim.asked_ms - KNOWN_MS
        least = Counter(groups[series] for series in samples.series[counts & known])
        most = Counter(groups[series] for series in samples.series[counts])
        for group in least.keys() | claim.counted.keys():
            if not least[group] <= claim.counted.get(group, 0.0) <= most[group]:
                self.verdict.differ.add((COUNTED, claim.end_ms))
                self.verdict.said.append(
                    f"wrong: {group} at {claim.end_ms}, asked at {claim.asked_ms}, from a summary: "
                    f"{claim.counted.get(group)} samples instead of {least[group]} to {most[group]}"
                )

    def stored(self) -> int:
        """Pane ends among the judged ones that have left for the database."""
        judged = {int(end) for part in self._slices for end in part.ends_ms}
        return len(judged - self._cluster.open_ends_ms(SHARDS))

    def _settled_ms(self) -> int:
        return min(sender.settled_ms() for sender in self._senders)

    def _engines(self) -> list[Program]:
        return [role.running for role in self._cluster.query_engines]

    def _start_query_engines_anew(self) -> None:
        """So that they know only what is in the log: they may have read what a Redis then forgot."""
        for role in self._cluster.query_engines:
            role.kill()
            role.start()
        self._cluster.await_ready()

    def _await_summaries(self, first_ms: int, last_ms: int, served_s: float) -> None:
        """Until every engine serves the newest and the oldest of the panes from summaries, or they never will."""

        def all_are() -> bool:
            places = [(engine, at_ms) for engine in self._engines() for at_ms in (first_ms, last_ms)]
            return all(tier(instant(e, query, at_ms)) == "summary" for e, at_ms in places for query in KEPT)

        try:
            poll_until(all_are, served_s, "summaries", 0.3)
        except AssertionError:
            self.verdict.said.append(f"not all panes up to {last_ms} are served from summaries after {served_s:g} s")

    # -- samples

    def _count_missing(self, samples: Acknowledged, struck: Sequence[Struck]) -> I64:
        """Rows that are not there. Those of this stretch of time are counted, as lost or as lost by design."""
        there = _keys(*self._held(int(samples.t_ms.max(initial=0))))
        missing = np.flatnonzero(~np.isin(_keys(samples.series, samples.t_ms), there))
        new = missing[samples.t_ms[missing] > self._done_ms]
        allowed = self._allowed(samples, struck)[new]
        late = samples.heard_ms - samples.t_ms > self._acceptance_ms - 5 * SCRAPE_MS
        self._doubtful_ms += np.unique(samples.t_ms[new[allowed]]).tolist() + np.unique(samples.t_ms[late]).tolist()
        self.verdict.acknowledged += int((samples.t_ms > self._done_ms).sum())
        self.verdict.lost_by_design += int(allowed.sum())
        self._note_lost(samples, new[~allowed & ~late[new]])
        return missing

    def _note_lost(self, samples: Acknowledged, rows: I64) -> None:
        self.verdict.lost += len(rows)
        for row in rows[:SHOWN]:
            name, t_ms, heard_ms = self._labels[samples.series[row]], samples.t_ms[row], samples.heard_ms[row]
            self.verdict.said.append(f"lost: {name} at {t_ms}, acknowledged at {heard_ms}")

    def _allowed(self, samples: Acknowledged, struck: Sequence[Struck]) -> Bool:
        """Which samples their Redis was allowed to forget."""
        out = np.zeros(len(samples), np.bool_)
        logs = self._cluster.ground.logs
        for one in filter(_forgets, struck):
            since_ms = one.at_ms - UNSYNCED_MS
            place = next(k for k, log in enumerate(logs) if log is one.target)
            own = self._shards[samples.series] % len(logs) == place
            out |= own & (samples.heard_ms >= since_ms) & (samples.heard_ms <= one.at_ms + SCRAPE_MS)
        return out

    def _held(self, until_ms: int) -> tuple[I64, I64]:
        """Series and times of all samples that a query engine has of this stretch of time and the reach before it."""
        number = {labels: k for k, labels in enumerate(self._labels)}
        span_s = (until_ms - self._done_ms + REACH_MS) // 1000 + 1
        series, times = [], []
        for sender in self._senders:
            for metric in ("chaos_gauge", "chaos_total"):
                answer = instant(self._engines()[0], f'{metric}{{sender="{sender.name}"}}[{span_s}s]', until_ms)
                for row in answer.json()["data"]["result"]:
                    at = [round(1000 * float(t)) for t, _ in row["values"]]
                    series += [number[tuple(sorted(row["metric"].items()))]] * len(at)
                    times += at
        return np.array(series, np.int64), np.array(times, np.int64)

    # -- panes

    def _compare(self, part: Slice, count: bool) -> None:
        """Every aggregation at every pane end, asked of the query engines in turn."""
        engines = cycle(self._engines())
        for query, panes in part.expected.items():
            for end_ms, expected in panes.items():
                if self._is_doubtful(end_ms):
                    self.verdict.unjudged += count
                else:
                    self._compare_pane(query, end_ms, expected, next(engines), count)

    def _compare_pane(
        self, query: str, end_ms: int, expected: dict[Labels, float], engine: Program, count: bool
    ) -> None:
        answer = instant(engine, query, end_ms)
        found = {labels: value for (labels, _), value in points(answer).items()}
        if count:
            self.verdict.panes[tier(answer)] += 1
        if query == COUNTED:
            self._note_surplus(end_ms, expected, found)
        if different := differing(expected, found):
            self.verdict.differ.add((query, end_ms))
            self.verdict.said.append(f"wrong: {query} at {end_ms}, from {tier(answer)}: {'; '.join(different[:SHOWN])}")

    def _note_surplus(self, end_ms: int, expected: dict[Labels, float], found: dict[Labels, float]) -> None:
        for labels, counted in found.items():
            more = int(counted - expected.get(labels, 0.0))
            if more > self.verdict.surplus.get((end_ms, labels), 0):
                self.verdict.surplus[end_ms, labels] = more

    def _is_doubtful(self, end_ms: int) -> bool:
        return any(end_ms - REACH_MS < t_ms <= end_ms for t_ms in self._doubtful_ms)


def _keys(series: I64, t_ms: I64) -> I64:
    """One number for each (series, time)."""
    return series << 44 | t_ms


def _forgets(struck: Struck) -> bool:
    """Whether a Redis was killed that may lose what it acknowledged."""
    return struck.kind == LOG_KILLED and "everysec" in struck.target.server.command
