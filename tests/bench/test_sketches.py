"""The bench of sketches runs, for every subject, on few values."""

import pytest

from precompute.sketches.registry import FAMILIES, family_of
from tests.bench.sketch_subjects import SUBJECTS, Columns, Subject
from tests.bench.sketches import Figures, measure, page


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.title)
@pytest.mark.parametrize("groups", [1, 7])
def test_each_subject_is_measured(subject: Subject, groups: int) -> None:
    figures = measure(subject, groups, 300)
    assert isinstance(figures, Figures)
    assert (figures.groups, figures.values) == (groups, 300)
    assert min(figures.updates, figures.merges, figures.estimates, figures.group_bytes) > 0
    assert figures.row() in page([figures])


def test_every_family_is_measured() -> None:
    measured = {family_of(subject.name).name for subject in SUBJECTS if isinstance(subject, Columns)}
    assert measured >= FAMILIES.keys() - {"max"}
