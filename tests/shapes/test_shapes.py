"""Lines are sorted by the modes that they ran in, and written down so that they can be found."""

import pytest

from tests.shapes.counted import counts, split
from tests.shapes.page import BEGIN, END, tables, written

FOUND = split(
    "query/a.py", frozenset({1, 2, 4, 5, 9, 10}), [frozenset({1, 2, 4}), frozenset({1, 9, 10})]
)  # fmt: skip
APART = split("ingest/b.py", frozenset({1, 2}), [frozenset(), frozenset({1, 2})])


def test_each_line_is_counted_once() -> None:
    found = counts([FOUND])
    assert (found.both, found.only, found.neither, found.executable) == (1, (2, 2), 1, 6)
    assert (found.share, found.share_of_run) == (4 / 6, 4 / 5)


def test_nothing_has_no_share() -> None:
    assert (counts([]).share, counts([]).share_of_run) == (0.0, 0.0)


def test_neighbours_are_written_as_one_unless_a_line_that_can_run_stands_between() -> None:
    assert "single node: 2-4; cluster: 9-10 |" in tables([FOUND])


def test_a_file_of_one_mode_is_written_as_a_whole() -> None:
    assert "cluster: all that ran |" in tables([APART])


def test_the_files_with_most_lines_of_one_mode_come_first() -> None:
    page = tables([APART, FOUND])
    assert page.index("`query/a.py`") < page.index("`ingest/b.py`")


def test_what_stands_around_the_tables_stays() -> None:
    page = written(f"before\n{BEGIN}old\n{END}after\n", [FOUND])
    assert page.startswith(f"before\n{BEGIN}") and page.endswith(f"{END}after\n") and "old" not in page


def test_a_page_without_a_place_for_tables_is_refused() -> None:
    with pytest.raises(ValueError, match="no place"):
        written("nothing\n", [FOUND])
