"""Elections by a clock that the tests move.

# timeout 30 s    0    10   20   30   40   50
#   replica a     x    x         .    .    .     heard at 0 and 10, then silent
#   replica b          o    o    o    o    x     dropped up to 40, heard from 40.001
"""

import threading

from hypothesis import given
from hypothesis import strategies as st

from ingest.ha import NO_ROOM, HaLabels, OwnElections, ReplicaPairs
from precompute.clock import ManualClock
from precompute.labels import Labels


def series(**labels: str) -> Labels:
    return tuple(sorted(labels.items()))


def pairs_at(clock: ManualClock, max_pairs: int = 100) -> ReplicaPairs:
    return ReplicaPairs(HaLabels("cluster", "replica"), OwnElections(30_000, clock), max_pairs)


def tag(pairs: ReplicaPairs, cluster: str, replica: str) -> int:
    return pairs.split(series(cluster=cluster, replica=replica))[1]


def test_the_replica_label_goes_and_the_cluster_stays() -> None:
    plain, pair = pairs_at(ManualClock()).split(series(a="1", cluster="c", replica="r"))
    assert plain == series(a="1", cluster="c")
    assert pair > 0


def test_series_without_both_labels_are_left_alone() -> None:
    pairs = pairs_at(ManualClock())
    for labels in (series(a="1"), series(a="1", cluster="c"), series(a="1", replica="r")):
        assert pairs.split(labels) == (labels, 0)
    assert pairs.dropped([0]) == []


def test_the_first_replica_seen_is_elected() -> None:
    pairs = pairs_at(ManualClock())
    a, b = tag(pairs, "c", "a"), tag(pairs, "c", "b")
    assert pairs.dropped([b]) == []
    assert pairs.dropped([a]) == [a]
    assert pairs.dropped([b]) == []


def test_another_replica_takes_over_after_the_timeout_and_not_before() -> None:
    clock = ManualClock()
    pairs = pairs_at(clock)
    a, b = tag(pairs, "c", "a"), tag(pairs, "c", "b")
    assert pairs.dropped([a]) == []
    clock.advance(10_000)
    assert pairs.dropped([a]) == []
    clock.advance(30_000)
    assert pairs.dropped([b]) == [b]
    clock.advance(1)
    assert pairs.dropped([b]) == []
    assert pairs.dropped([a]) == [a]


def test_a_dropped_replica_does_not_prolong_the_elected_ones_time() -> None:
    clock = ManualClock()
    pairs = pairs_at(clock)
    a, b = tag(pairs, "c", "a"), tag(pairs, "c", "b")
    pairs.dropped([a])
    for _ in range(3):
        clock.advance(10_000)
        assert pairs.dropped([b]) == [b]
    clock.advance(10_000)
    assert pairs.dropped([b]) == []


def test_clusters_are_elected_apart() -> None:
    pairs = pairs_at(ManualClock())
    assert pairs.dropped([tag(pairs, "c", "a"), tag(pairs, "d", "b")]) == []


def test_pairs_beyond_the_bound_have_no_room_and_known_ones_keep_theirs() -> None:
    pairs = pairs_at(ManualClock(), max_pairs=1)
    known = tag(pairs, "c", "a")
    assert tag(pairs, "c", "b") == NO_ROOM
    assert tag(pairs, "c", "a") == known


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40_000)), max_size=30))
def test_at_any_time_one_replica_is_heard(sends: list[tuple[str, int]]) -> None:
    clock = ManualClock()
    pairs = pairs_at(clock)
    elected, heard_ms = "", 0
    for replica, wait_ms in sends:
        clock.advance(wait_ms)
        heard = pairs.dropped([tag(pairs, "c", replica)]) == []
        assert heard == (elected in ("", replica) or clock.now_ms() - heard_ms > 30_000)
        if heard:
            elected, heard_ms = replica, clock.now_ms()


def test_of_many_threads_that_send_at_once_one_replica_is_elected() -> None:
    pairs = pairs_at(ManualClock())
    tags = [tag(pairs, "c", str(k)) for k in range(8)]
    heard: list[int] = []
    barrier = threading.Barrier(8)

    def send(own: int) -> None:
        barrier.wait()
        heard.extend(own for _ in range(50) if not pairs.dropped([own]))

    threads = [threading.Thread(target=send, args=(own,)) for own in tags]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(heard)) == 1
    assert len(heard) == 50
