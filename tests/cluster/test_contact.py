"""What a query engine reads of the logs at once."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
import pytest

from precompute.clock import SystemClock
from precompute.cluster import contact as contacts
from precompute.cluster.contact import Contact
from precompute.cluster.head_copy import HeadCopy
from precompute.cluster.log import MOST_AT_ONCE, RedisSampleLog
from precompute.cluster.open_panes import OpenPanes
from precompute.cluster.shard_copy import ShardCopy
from precompute.cluster.shards import Shards
from precompute.labels import SeriesTable
from precompute.samples import Block
from tests.cluster.following import LIMITS
from tests.precompute.made_node import HOUR_MS, WIDTH_MS, series
from tests.servers import RedisServer

LOGS, SMALL, LARGE = 4, 300, 100
AIM = 1 << 17


def written(shards: Shards, now_ms: int) -> None:
    """In each log many small entries, then large ones: senders catch up after a quiet hour. In the last, small ones."""
    table, rng = SeriesTable(shards=LOGS), np.random.default_rng(0)
    sid = np.array([table.intern(series("x", pod=str(pod))) for pod in range(2000)], np.int32)
    for shard in shards.all:
        log, mine = RedisSampleLog(shard, table), sid[table.shard_of(sid) == shard.number]
        for k in range(SMALL + LARGE):
            own = mine[:2] if k < SMALL or shard.number == LOGS - 1 else mine[:300]
            log.append(Block(own, np.full(len(own), now_ms - 500_000 + k, np.int64), rng.random(len(own))))


def test_large_entries_after_small_ones_are_read_a_few_at_once(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contacts, "_READ_BYTES", AIM)
    clock, changes = SystemClock(), count(1)
    shards = Shards([redis.url], LOGS, LIMITS)
    shards.create(complete=True)
    written(shards, clock.now_ms())
    copies = tuple(ShardCopy(shard, WIDTH_MS, changes) for shard in shards.all)
    head = HeadCopy(SeriesTable(shards=LOGS), 1 << 28, WIDTH_MS, 2 * HOUR_MS, LOGS, clock)
    contact, reads = Contact(shards.first, copies, head, OpenPanes(copies, ()), clock), list[tuple[int, int]]()
    ask = shards.first.wait_for_news

    def asked(after: dict[str, str], wait_ms: int, most: int) -> Any:
        run, news = ask(after, wait_ms, most)
        reads.append((most, sum(len(fields[1]) for entries in news.values() for _, fields in entries if fields)))
        return run, news

    monkeypatch.setattr(shards.first, "wait_for_news", asked)
    while not all(copy.state for copy in copies):
        contact.keep_up()
    counts, sizes = zip(*reads, strict=True)
    assert doubled_at_most(counts) and max(counts) == MOST_AT_ONCE
    first_large = int(np.argmax(np.array(sizes) > AIM))  # what follows small ones is not known beforehand
    assert counts[first_large] == MOST_AT_ONCE and counts[first_large + 1] < 32
    assert max(sizes[first_large + 1 :]) <= 2 * AIM


def doubled_at_most(counts: Sequence[int]) -> bool:
    return all(later <= 2 * before for before, later in zip(counts, counts[1:], strict=False))
