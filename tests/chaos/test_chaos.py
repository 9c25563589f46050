"""Two minutes of everything that can go wrong: nothing acknowledged is lost, nothing counted twice, no pane wrong."""

import random
from pathlib import Path

import pytest

from tests.chaos.run import troubled

pytestmark = pytest.mark.e2e

MINUTES = 2.0
AWAY_S = 10.0
FAULTS = 20
"""What two minutes bring at the least."""


def test_nothing_is_lost_doubled_or_wrong_whatever_fails(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    outcome = troubled(MINUTES, seed, tmp_path, AWAY_S)
    print("\n".join(outcome.lines()))
    assert outcome.is_right
    assert outcome.verdict.acknowledged > 0
    assert outcome.verdict.panes["summary"] > 0
    assert outcome.stored > 0
    assert len(outcome.weather.struck) >= FAULTS
