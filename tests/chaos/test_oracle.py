"""The judge of chaos is not blind: on a single process where nothing fails it finds what was planted, and only that."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from precompute.clock import SystemClock
from tests.chaos.freshness import Claim
from tests.chaos.load import Sender, sending
from tests.chaos.oracle import KNOWN_MS, Oracle, Verdict
from tests.chaos.setup import ACCEPTED_MS, CONFIG, KEPT, LATENESS_MS, WIDTH_MS
from tests.cluster.roles import QUERY_ENGINE, Cluster, Ground, Role
from tests.e2e.talking import write
from tests.running import asap

pytestmark = pytest.mark.e2e

SERVED_S = 30.0
HALF_PANES = 6
SENT_S = 2 * HALF_PANES * WIDTH_MS / 1000


@dataclass(frozen=True)
class Loaded:
    """A process that two senders have written to: from `begin_ms` to `end_ms`, which are pane ends."""

    role: Role
    senders: tuple[Sender, ...]
    begin_ms: int
    end_ms: int

    @property
    def middle_ms(self) -> int:
        return self.begin_ms + HALF_PANES * WIDTH_MS

    def judged(self, after_ms: int, until_ms: int) -> Verdict:
        """What a judge says of one stretch of it."""
        cluster = Cluster(cast(Ground, _NoServers()), (self.role,))
        judge = Oracle(cluster, self.senders, after_ms, ACCEPTED_MS)
        judge.judge(until_ms, [], SERVED_S)
        judge.judge_again()
        print("\n".join(judge.verdict.said))
        return judge.verdict


class _NoServers:
    logs: tuple[Any, ...] = ()


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    folder, clock = tmp_path_factory.mktemp("oracle"), SystemClock()
    with asap(folder, {key: value for key, value in CONFIG.items() if key != "cluster"}) as program:
        begin_ms = clock.now_ms() // WIDTH_MS * WIDTH_MS
        senders = tuple(Sender(name, 10, [program.url], clock, seed) for seed, name in enumerate("pq"))
        with sending(senders) as finish:
            threading.Event().wait(SENT_S)
            finish()
        end_ms = (clock.now_ms() - LATENESS_MS) // WIDTH_MS * WIDTH_MS
        yield Loaded(Role("one", QUERY_ENGINE, (), program.url, folder, program), senders, begin_ms, end_ms)


def test_where_nothing_fails_nothing_is_found(loaded: Loaded) -> None:
    found = loaded.judged(loaded.begin_ms, loaded.middle_ms)
    assert found.acknowledged > 100
    assert (found.lost, found.twice, found.wrong, found.unjudged, found.said) == (0, 0, 0, 0, [])
    assert found.panes == {"summary": HALF_PANES * len(KEPT)}


def test_a_sample_that_is_not_there_is_lost(loaded: Loaded) -> None:
    sender = loaded.senders[0]
    first = sender.acknowledged[0]
    never_sent = replace(first, t_ms=first.t_ms + 300)
    others = (replace(sender, acknowledged=[*sender.acknowledged, never_sent]), *loaded.senders[1:])
    found = replace(loaded, senders=others).judged(loaded.begin_ms, loaded.middle_ms)
    assert (found.lost, found.twice, found.wrong) == (len(sender.labels), 0, 0)


def test_a_sample_that_nobody_sent_is_counted_twice_and_makes_its_pane_wrong(loaded: Loaded) -> None:
    sender = loaded.senders[0]
    at_ms = loaded.middle_ms + 1
    assert write(loaded.role.running, [(sender.labels[0], [(at_ms, 1e9)])]).status == 204
    found = loaded.judged(loaded.middle_ms, loaded.end_ms)
    assert found.lost == 0
    assert found.twice == 1
    assert any(line.startswith("wrong: sum by (g) (count_over_time") for line in found.said)


def test_an_answer_that_lacks_what_was_acknowledged_long_before_is_wrong(loaded: Loaded) -> None:
    cluster = Cluster(cast(Ground, _NoServers()), (loaded.role,))
    end_ms, labels = loaded.middle_ms, (("g", "a"),)
    heard_ms = max(scrape.acknowledged_ms for sender in loaded.senders for scrape in sender.acknowledged)
    for asked_ms, is_wrong in ((end_ms, False), (heard_ms + KNOWN_MS + 1, True)):
        judge = Oracle(cluster, loaded.senders, loaded.begin_ms, ACCEPTED_MS)
        judge.judge_claims([Claim(end_ms, asked_ms, {labels: 1.0})])
        assert bool(judge.verdict.wrong) is is_wrong, judge.verdict.said
