"""Label sets and their ids: found again, in order of hash, and by other threads while new ones are added."""

from random import Random

import numpy as np
import pytest

from precompute.labels import Labels, SeriesTable, canonical_bytes, parse_labels
from tests.reference.threads import beside


def labels(**pairs: str) -> Labels:
    return tuple(sorted(pairs.items()))


def drawn(random: Random, count: int) -> list[Labels]:
    alphabet = ("", "a", "b", "zone", "ü", "x" * 200, "1")
    sets = {
        labels(**{name: random.choice(alphabet[1:]) + str(random.randrange(30)) for name in random.sample("abcdef", k)})
        for k in random.choices(range(7), k=count)
    }
    return sorted(sets)


def found(table: SeriesTable, runs: list[bytes]) -> list[tuple[int, int]]:
    lengths = np.array([len(run) for run in runs], np.int64)
    starts = np.cumsum(lengths) - lengths
    sids, tags = table.lookup(np.frombuffer(b"".join(runs), np.uint8), starts, lengths)
    return list(zip(sids.tolist(), tags.tolist(), strict=True))


def test_a_label_set_gets_one_dense_id_and_is_read_back() -> None:
    table, sets = SeriesTable(), drawn(Random(1), 500)
    ids = [table.intern(s) for s in sets]
    assert ids == list(range(len(sets))) == [table.intern(s) for s in sets]
    assert [table.labels_of(i) for i in ids] == sets
    assert len(table) == len(sets)


def test_canonical_bytes_are_the_labels_of_a_time_series_message() -> None:
    every = labels(__name__="m", ü="ä" * 100, a="1")
    assert tuple(parse_labels(canonical_bytes(every))) == every
    assert canonical_bytes(labels(a="b")) == b"\x0a\x06\x0a\x01a\x12\x01b"


@pytest.mark.parametrize(
    "raw",
    [b"\x0a", b"\x0a\xff", b"\x12\x00", b"\x0a\x05\x0a\x01a", b"\x0a" + b"\xff" * 9, b"\x0a\x03\x0a\x01\xff"],
)
def test_bytes_that_are_no_labels_are_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"labels|decode"):
        parse_labels(raw)


def test_lookup_knows_what_was_interned_and_nothing_else() -> None:
    table, sets = SeriesTable(), drawn(Random(2), 300)
    known, unknown = sets[::2], sets[1::2]
    ids = [table.intern(s) for s in known]
    assert found(table, [canonical_bytes(s) for s in known]) == [(i, 0) for i in ids]
    assert {sid for sid, _ in found(table, [canonical_bytes(s) for s in unknown])} == {-1}


def test_canonical_runs_are_given_back_for_any_choice_of_series() -> None:
    table, sets = SeriesTable(), drawn(Random(3), 100)
    for s in sets:
        table.intern(s)
    picks = np.array([5, 5, 0, 40, 17], np.int32)
    data, offsets = table.canonical(picks)
    assert [data[a:b].tobytes() for a, b in zip(offsets, offsets[1:], strict=False)] == [
        canonical_bytes(sets[i]) for i in picks
    ]


def test_an_alias_leads_to_its_series_with_its_tag_and_can_be_replaced() -> None:
    table = SeriesTable()
    first, second = table.intern(labels(a="1")), table.intern(labels(a="2"))
    table.alias(b"other", first, 7)
    assert found(table, [b"other"]) == [(first, 7)]
    table.alias(b"other", second, 8)
    assert found(table, [b"other", canonical_bytes(labels(a="1"))]) == [(second, 8), (first, 0)]


def test_labels_whose_writing_was_an_alias_can_become_a_series_of_their_own() -> None:
    table = SeriesTable()
    first = table.intern(labels(a="1"))
    table.alias(canonical_bytes(labels(a="1", replica="x")), first, 3)
    own = table.intern(labels(a="1", replica="x"))
    assert own != first
    assert table.labels_of(own) == labels(a="1", replica="x")
    assert table.canonical(np.array([own], np.int32))[0].tobytes() == canonical_bytes(labels(a="1", replica="x"))


def test_hash_order_is_an_order_by_shard_and_does_not_depend_on_ids() -> None:
    sets, random = drawn(Random(4), 400), Random(5)
    orders = []
    for _ in range(2):
        table = SeriesTable(hash_seed=9, shards=7)
        shuffled = random.sample(sets, len(sets))
        every = np.array([table.intern(s) for s in shuffled], np.int32)
        ordered = table.in_hash_order(every)
        shards = table.shard_of(ordered)
        assert (np.diff(shards) >= 0).all()
        assert set(shards.tolist()) == set(range(7))
        orders.append([table.labels_of(s) for s in ordered.tolist()])
    assert orders[0] == orders[1]


def test_another_seed_is_another_order() -> None:
    sets = drawn(Random(4), 50)
    tables = [SeriesTable(hash_seed=seed) for seed in (0, 1)]
    orders = [t.in_hash_order(np.array([t.intern(s) for s in sets], np.int32)).tolist() for t in tables]
    assert orders[0] != orders[1]


def test_columns_and_the_inverted_index_agree_with_the_labels() -> None:
    table, sets = SeriesTable(), drawn(Random(6), 200)
    every = np.array([table.intern(s) for s in sets], np.int32)
    names = sorted({name for s in sets for name, _ in s})
    assert table.names() == table.names_of(every) == names
    for name in (*names, "nosuch"):
        texts = table.symbols.texts(table.columns(every, (name,))[:, 0].tolist())
        assert texts == [dict(s).get(name, "") for s in sets]
        values = sorted({dict(s)[name] for s in sets if name in dict(s)})
        assert table.values(name) == values
        for value in values:
            assert table.posting(name, value).tolist() == [i for i, s in enumerate(sets) if dict(s).get(name) == value]
    assert table.posting("a", "nosuch").tolist() == []


def test_lookups_beside_an_interning_thread_find_whole_series() -> None:
    """What a lookup finds has its labels, hash and canonical bytes; what was interned before it is found."""
    table, count, interned = SeriesTable(), 3000, [0]
    runs = [canonical_bytes(labels(__name__="m", i=str(i))) for i in range(count)]

    def look() -> None:
        before = interned[0]
        sids = np.array([sid for sid, _ in found(table, runs)], np.int32)
        assert (sids[:before] == np.arange(before)).all()
        there = sids[sids >= 0]
        assert len(there) == 0 or int(there.max()) < len(table)
        assert table.canonical(there[-3:])[0].tobytes() == b"".join(runs[i] for i in there[-3:])

    with beside(2, look):
        for i in range(count):
            table.intern(labels(__name__="m", i=str(i)))
            interned[0] = i + 1


def test_postings_can_be_read_while_they_grow() -> None:
    table = SeriesTable()

    def read() -> None:
        at_least = len(table)
        posting = table.posting("__name__", "m")
        assert len(posting) >= at_least
        assert (posting == np.arange(len(posting))).all()

    with beside(2, read):
        for i in range(4000):
            table.intern(labels(__name__="m", i=str(i)))
    assert len(table.posting("__name__", "m")) == 4000
