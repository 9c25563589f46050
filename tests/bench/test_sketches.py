"""The bench of sketches runs, for every subject, on few values."""

import pytest

from tests.bench.sketch_subjects import SUBJECTS, Subject
from tests.bench.sketches import Figures, measure, page


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.title)
@pytest.mark.parametrize("groups", [1, 7])
def test_each_subject_is_measured(subject: Subject, groups: int) -> None:
    figures = measure(subject, groups, 300)
    assert isinstance(figures, Figures)
    assert (figures.groups, figures.values) == (groups, 300)
    assert min(figures.updates, figures.merges, figures.estimates, figures.group_bytes) > 0
    assert figures.row() in page([figures])
