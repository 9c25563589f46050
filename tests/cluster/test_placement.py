"""Shards go to workers that live, stay where they are warm, and are shared out in bounded steps."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from precompute.cluster.placement import placed

NAMES = [f"w{k}" for k in range(7)]
lives = st.lists(st.sampled_from(NAMES), unique=True, max_size=7)
holders = st.lists(st.sampled_from(["", "gone", *NAMES]), min_size=1, max_size=40)


def after(live: list[str], held: list[str], most_moves: int) -> list[str]:
    """Who holds each shard when all kicks of a round were followed."""
    return [kick.give_to or kick.worker for kick in placed(live, held, most_moves)]


def settled(live: list[str], held: list[str], most_moves: int) -> list[str]:
    """After as many rounds as there are shards."""
    for _ in held:
        held = after(live, held, most_moves)
    return held


@given(lives, holders)
def test_every_shard_is_kicked_once_if_a_worker_lives_and_by_no_other(live: list[str], held: list[str]) -> None:
    kicks = placed(live, held, 3)
    assert [kick.shard for kick in kicks] == (list(range(len(held))) if live else [])
    assert {kick.worker for kick in kicks} | {kick.give_to for kick in kicks} <= {*live, ""}


@given(lives, holders)
def test_a_live_holder_is_the_one_that_is_kicked(live: list[str], held: list[str]) -> None:
    for kick in placed(live, held, 3):
        if held[kick.shard] in live:
            assert kick.worker == held[kick.shard]
        else:
            assert not kick.give_to


@given(lives.filter(bool), holders, st.integers(1, 5))
def test_in_the_end_nobody_has_more_than_one_shard_more_than_another(
    live: list[str], held: list[str], most_moves: int
) -> None:
    sizes = Counter(dict.fromkeys(live, 0))
    sizes.update(settled(live, held, most_moves))
    assert max(sizes.values()) <= -(-len(held) // len(live))
    assert max(sizes.values()) - min(sizes.values()) <= 1


@given(lives.filter(bool), holders)
def test_what_is_balanced_stays_where_it_is(live: list[str], held: list[str]) -> None:
    balanced = settled(live, held, 3)
    kicks = placed(live, balanced, 3)
    assert [kick.worker for kick in kicks] == balanced
    assert not any(kick.give_to for kick in kicks)


@given(lives.filter(bool), holders, st.integers(0, 5))
def test_a_round_moves_no_more_warm_shards_than_it_may(live: list[str], held: list[str], most_moves: int) -> None:
    assert sum(bool(kick.give_to) for kick in placed(live, held, most_moves)) <= most_moves


def test_a_worker_that_joins_gets_its_share_a_few_at_a_time() -> None:
    held = [f"w{k % 4}" for k in range(16)]
    live = [f"w{k}" for k in range(5)]
    after_one = after(live, held, 2)
    assert after_one.count("w4") == 2
    assert Counter(settled(live, held, 2)).most_common()[-1][1] == 3


def test_the_order_in_which_workers_are_named_decides_nothing() -> None:
    held = ["", "b", "b", "b", "", "gone"]
    assert placed(["a", "b", "c"], held, 1) == placed(["c", "b", "a"], held, 1)
