"""A first try that is not answered, is repeated, and arrives when the repetition was refused.

As over a slow network: TCP sends again what a process has given up, also for a connection that it has closed.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from precompute.clock import ManualClock
from precompute.cluster.log import RedisSampleLog
from precompute.cluster.server import Call, Server, ServerDown
from precompute.cluster.shards import Shards
from precompute.cluster.writing import LocalIds, ShardWriter
from precompute.errors import Rejected
from precompute.labels import SeriesTable
from precompute.samples import Block
from tests.cluster.made_shards import LIMITS, NOW_MS, made_shards
from tests.cluster.test_appender import Sample, every, opened, some, write
from tests.cluster.test_appender import clock as clock
from tests.cluster.test_appender import shards as shards
from tests.servers import RedisServer

AHEAD_MS = NOW_MS + LIMITS.future_ms + 1


class SlowNetwork:
    """What is sent once it is `slow` is not answered; it arrives a second later, before the third try from there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
        self.slow = False
        self.outcomes: set[bytes] = set()
        """What was answered to the first try, which nobody heard."""
        self._clock, self._run_all = clock, Server.run_all
        self._held: list[Call] = []
        self._tries = 0
        monkeypatch.setattr(Server, "run_all", lambda server, calls: self._send(server, calls))

    def repetition(self) -> None:
        """Called before the repetition is sent; tests put something else here."""

    def _send(self, server: Server, calls: Sequence[Call]) -> list[list[bytes]]:
        self._tries += self.slow
        if self._tries == 1:
            self._held = list(calls)
            raise ServerDown("no answer for 5 s")
        if self._tries == 2:
            self.repetition()
        if self._tries == 3:
            self._clock.advance(1000)
            self.outcomes = {reply[0] for reply in self._carry_out(server, self._held)}
        return self._carry_out(server, calls)

    def _carry_out(self, server: Server, calls: Sequence[Call]) -> list[list[bytes]]:
        """By the time of now: a server judges by when a call arrives."""
        now_ms = str(self._clock.now_ms())
        return self._run_all(server, [replace(call, arguments=(now_ms, *call.arguments[1:])) for call in calls])


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> SlowNetwork:
    return SlowNetwork(monkeypatch, clock)


def make_full(shards: Shards, is_full: bool) -> None:
    for shard in shards.all:
        shards.first.ask("HSET", f"{{{shard.number}}}m", "cut", -LIMITS.log_max_bytes if is_full else 0)


def go_on_and_look(send: Callable[[list[Sample]], object], shards: Shards, offered: list[Sample]) -> None:
    """Everything that is taken from now on is in the log, and nothing there that was never sent."""
    taken = [[(f"{name}{k}", NOW_MS + at, 100.0 * at + k) for name in "xb" for k in range(40)] for at in (2, 3)]
    for samples in taken:
        send(samples)
    rows = set(every(shards))
    assert set().union(*taken) <= rows <= set(offered).union(*taken)


def test_after_a_full_log_an_append_is_in_the_log(shards: Shards, clock: ManualClock, network: SlowNetwork) -> None:
    to = opened(shards, clock)
    write(to, some(40))
    make_full(shards, True)
    network.slow, refused = True, [(f"b{k}", NOW_MS + 1, 10.0) for k in range(40)]
    with pytest.raises(Rejected, match=r"log\.max_bytes"):
        write(to, refused)
    make_full(shards, False)
    go_on_and_look(lambda samples: write(to, samples), shards, some(40) + refused)
    assert network.outcomes == {b"ok"}


@pytest.mark.parametrize("ahead", [40, 15])
def test_after_samples_too_far_ahead_an_append_is_in_the_log(
    shards: Shards, clock: ManualClock, network: SlowNetwork, ahead: int
) -> None:
    to = opened(shards, clock)
    write(to, some(40))
    network.slow = True
    sent = [(f"b{k}", AHEAD_MS if k < ahead else NOW_MS + 1, 10.0) for k in range(40)]
    assert write(to, sent).too_far_ahead == ahead
    go_on_and_look(lambda samples: write(to, samples), shards, some(40) + sent)
    assert set(sent[ahead:]) <= set(every(shards))
    assert b"ok" in network.outcomes


def test_after_a_repetition_that_broke_off_an_append_is_in_the_log(
    shards: Shards, clock: ManualClock, network: SlowNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = opened(shards, clock)
    write(to, some(40))
    monkeypatch.setattr(network, "repetition", broken)
    network.slow, refused = True, [(f"b{k}", NOW_MS + 1, 10.0) for k in range(40)]
    with pytest.raises(ZeroDivisionError):
        write(to, refused)
    go_on_and_look(lambda samples: write(to, samples), shards, some(40) + refused)
    assert network.outcomes == {b"ok"}


@pytest.mark.parametrize("case", ["full", "ahead", "broken"])
def test_a_log_of_one_shard_keeps_what_it_appends(
    redis: RedisServer, clock: ManualClock, network: SlowNetwork, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    shards = made_shards(redis.url, clock)
    table = SeriesTable()
    log = RedisSampleLog(shards.all[0], table)

    def append(samples: list[Sample]) -> None:
        sids = [table.intern((("__name__", "m"), ("i", i))) for i, _, _ in samples]
        t_ms, values = ([sample[k] for sample in samples] for k in (1, 2))
        log.append(Block(np.array(sids, np.int32), np.array(t_ms), np.array(values, np.float64)))

    append(some(40))
    refused = [(f"b{k}", AHEAD_MS if case == "ahead" else NOW_MS + 1, 10.0) for k in range(40)]
    make_full(shards, case == "full")
    if case == "broken":
        monkeypatch.setattr(network, "repetition", broken)
    network.slow = True
    with pytest.raises(ZeroDivisionError if case == "broken" else Rejected):
        append(refused)
    make_full(shards, False)
    go_on_and_look(append, shards, some(40) + refused)
    assert network.outcomes == {b"ok"}
    shards.close()


def broken() -> None:
    raise ZeroDivisionError


def test_a_number_stands_for_another_entry_only_after_an_answer() -> None:
    table = SeriesTable()
    block = Block(np.array([table.intern((("__name__", "m"),))], np.int32), np.array([NOW_MS]), np.array([1.0]))
    writer = ShardWriter(LocalIds(table), 7)
    first = writer.prepare(block).samples
    writer.refused()
    assert writer.prepare(block).samples == first
    anew = writer.prepare(block)
    assert (anew.samples.seq, anew.samples.segment, len(anew.fresh)) == (1, 7, 1)
    assert anew.samples.writer != first.writer
    writer.wrote(anew)
    second = writer.prepare(block)
    assert (second.samples.writer, second.samples.seq, len(second.fresh)) == (anew.samples.writer, 2, 0)
