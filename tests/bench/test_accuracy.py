"""The page's own checks, on sizes that take seconds."""

import pytest

from tests.bench.accuracy import DISTRIBUTIONS, table


def test_every_bound_holds_in_every_draw() -> None:
    rows = table([10, 1000])
    assert rows.count("\n") == 2 * len(DISTRIBUTIONS) - 1


def test_a_broken_bound_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bench.accuracy.quantile_errors", lambda values, parts: ([0.02], 1))
    with pytest.raises(AssertionError, match="is above"):
        table([10])
