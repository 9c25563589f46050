"""Prometheus' own language tests, where they are at hand: PROMQLTEST_DIR names the folder of the *.test files.

unsupported.txt lists what cannot be had here, by file, feature and line. It may only shrink: what is not in it
must pass, and what is in it and starts to pass must be taken out
(`python manage.py promqltest --unsupported FILE… > tests/promql/unsupported.txt`).
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from query.promqltest.run import FAILED, UNSUPPORTED, run

FOLDER = os.environ.get("PROMQLTEST_DIR", "")
SCRIPTS = sorted(Path(FOLDER).glob("*.test")) if FOLDER else []
LIST = Path(__file__).with_name("unsupported.txt")
MISSING_FEATURES = {
    "anchored and smoothed selectors", "arithmetic of durations", "histogram trim operators", "native histograms",
    "start timestamps", "the function start_timestamp",
}  # fmt: skip


def listed() -> Mapping[str, Mapping[int, str]]:
    """Feature by line, by file."""
    out: dict[str, dict[int, str]] = {}
    for line in LIST.read_text().splitlines():
        file, feature, lines = line.split("\t")
        out.setdefault(file, {}).update(dict.fromkeys(map(int, lines.split(",")), feature))
    return out


@pytest.mark.skipif(not SCRIPTS, reason="PROMQLTEST_DIR is not set, or holds no *.test files")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_evaluation_passes_but_those_that_are_listed(script: Path) -> None:
    outcomes = list(run(script.read_text()))
    failed = [f"line {o.line}: {o.text}: {o.why}" for o in outcomes if o.status == FAILED]
    assert not failed
    assert {o.line: o.why for o in outcomes if o.status == UNSUPPORTED} == listed().get(script.name, {})


def test_the_list_names_only_features_that_are_missing_on_purpose() -> None:
    assert {feature for lines in listed().values() for feature in lines.values()} <= MISSING_FEATURES
