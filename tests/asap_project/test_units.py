"""Durations and sizes as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asap_project.config.units import duration_ms, duration_text, size_bytes, size_text


@pytest.mark.parametrize(
    ("text", "ms"),
    [("15s", 15_000), ("1h30m", 5_400_000), ("1d", 86_400_000), ("250ms", 250), ("1w", 604_800_000), ("0", 0), (0, 0)],
)
def test_a_duration_is_read_as_prometheus_reads_it(text: object, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["15", 15, "", "s", "-1s", "1s1h", "1.5h", "1h 30m", "1hh", True, None, "٣s"])
def test_what_is_no_duration_is_refused_with_an_example(text: object) -> None:
    with pytest.raises(ValueError, match="such as 15s"):
        duration_ms(text)


@given(st.integers(0, 10**12))
def test_a_duration_survives_being_written(ms: int) -> None:
    assert duration_ms(duration_text(ms)) == ms


@pytest.mark.parametrize(
    ("text", "size"), [("4GiB", 4 << 30), ("512MiB", 512 << 20), ("100MB", 10**8), ("7", 7), (7, 7), ("1 KiB", 1024)]
)
def test_a_size_is_read(text: object, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1.5GiB", "1XB", "4Gb", True, None])
def test_what_is_no_size_is_refused_with_an_example(text: object) -> None:
    with pytest.raises(ValueError, match="such as 512MiB"):
        size_bytes(text)


@given(st.integers(0, 2**50))
def test_a_size_survives_being_written(size: int) -> None:
    assert size_bytes(size_text(size)) == size
