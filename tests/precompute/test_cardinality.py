"""Series counted by metric, label and pair."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from precompute.cardinality import cardinality
from precompute.labels import METRIC_NAME, SeriesTable

NAMES = st.sampled_from([METRIC_NAME, "job", "é", "pod"])
LABELS = st.dictionaries(NAMES, st.sampled_from(["a", "b", "łł", "c" * 300]), min_size=1)


def ranked(counts: Counter[str], most: int) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:most]


@settings(deadline=None)
@given(st.lists(LABELS, max_size=30))
def test_every_count_is_that_of_the_label_sets(known: list[dict[str, str]]) -> None:
    table = SeriesTable()
    sets = {tuple(sorted(one.items())) for one in known}
    for labels in sets:
        table.intern(labels)
    pairs = Counter(pair for labels in sets for pair in labels)
    sizes: Counter[str] = Counter()
    for (name, value), count in pairs.items():
        sizes[name] += (len(name.encode()) + len(value.encode())) * count
    counted = cardinality(table, 100)
    assert counted.pairs == len(pairs)
    assert counted.series_by_pair == ranked(Counter({f"{n}={v}": c for (n, v), c in pairs.items()}), 100)
    assert counted.series_by_metric == ranked(Counter({v: c for (n, v), c in pairs.items() if n == METRIC_NAME}), 100)
    assert counted.values_by_label == ranked(Counter(n for n, _ in pairs), 100)
    assert counted.bytes_by_label == ranked(sizes, 100)


@settings(deadline=None)
@given(st.lists(LABELS, max_size=30), st.integers(1, 5))
def test_a_short_ranking_has_the_largest_counts(known: list[dict[str, str]], most: int) -> None:
    table = SeriesTable()
    for one in known:
        table.intern(tuple(sorted(one.items())))
    short, whole = cardinality(table, most), cardinality(table, 100)
    assert [c for _, c in short.series_by_pair] == [c for _, c in whole.series_by_pair][:most]
    assert set(short.series_by_pair) <= set(whole.series_by_pair)
