"""Two minutes of everything that can go wrong: nothing acknowledged is lost, nothing counted twice, no pane wrong."""

from pathlib import Path

import pytest

from tests.chaos.run import troubled
from tests.running import drawn_seed

pytestmark = pytest.mark.e2e

MINUTES = 2.0
AWAY_S = 10.0
FAULTS = 8
"""What two minutes bring at the least, also where they pass while servers are slow to stop and to start."""


def test_nothing_is_lost_doubled_or_wrong_whatever_fails(tmp_path: Path) -> None:
    seed = drawn_seed()
    outcome = troubled(MINUTES, seed, tmp_path, AWAY_S)
    print("\n".join(outcome.lines()))
    assert outcome.is_right
    assert outcome.verdict.acknowledged > 0
    assert outcome.verdict.panes["summary"] > 0
    assert outcome.stored > 0
    assert len(outcome.weather.struck) >= FAULTS
