"""States that earlier versions stored stay readable, and mean what they meant."""

from pathlib import Path

import pytest

from precompute.sketches.bytes import from_bytes, to_bytes
from precompute.sketches.columns import row_count
from precompute.sketches.registry import accumulator
from tests.contracts.accumulator_lines import LINES, Line
from tests.contracts.stored_states import FOLDER, answers_of, path_of, state_of, stored_answers
from tests.precompute.sketches.made import same_bits


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.bin")), ids=lambda path: path.stem)
def test_a_stored_state_reads_and_answers_as_it_did(path: Path) -> None:
    name, state = from_bytes(path.read_bytes())
    assert row_count(accumulator(name).columns, state) == 3
    assert answers_of(name, state) == stored_answers()[path.name]


@pytest.mark.parametrize("line", LINES, ids=str)
def test_what_is_built_today_is_what_was_stored(line: Line) -> None:
    name, state = from_bytes(path_of(line.name).read_bytes())
    assert name == line.name
    assert same_bits(state, state_of(name))
    assert to_bytes(name, state) == path_of(line.name).read_bytes()


def test_every_state_has_its_answers_and_every_answer_its_state() -> None:
    assert {path.name for path in FOLDER.glob("*.bin")} == set(stored_answers())
