"""Outcomes as lines for people."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from query.promqltest.notation import BadScript
from query.promqltest.run import FAILED, PASSED, UNSUPPORTED, Outcome, run


class Sums:
    """How many evaluations passed, failed and were unsupported."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, outcomes: list[Outcome]) -> None:
        self._counts.update(outcome.status for outcome in outcomes)

    @property
    def failed(self) -> int:
        return self._counts[FAILED]

    def text(self) -> str:
        return ", ".join(f"{self._counts[status]} {status}" for status in (PASSED, FAILED, UNSUPPORTED))


def report(path: Path, sums: Sums) -> Iterator[str]:
    """A line for a script, then one for each failed evaluation, then one for each missing feature."""
    try:
        outcomes = list(run(path.read_text()))
    except (BadScript, OSError, UnicodeDecodeError) as error:
        outcomes = [Outcome(0, "", FAILED, str(error))]
    own = Sums()
    for part in (own, sums):
        part.add(outcomes)
    yield f"{path.name}: {own.text()}"
    for outcome in outcomes:
        if outcome.status == FAILED:
            yield f"  line {outcome.line}: {outcome.text}: {outcome.why}"
    features = Counter(outcome.why for outcome in outcomes if outcome.status == UNSUPPORTED)
    for feature, count in sorted(features.items()):
        yield f"  {count} unsupported: {feature}"


def unsupported(path: Path) -> Iterator[str]:
    """`file<TAB>feature<TAB>lines` for each feature that a script asks for and that is missing. Raises BadScript."""
    lines: dict[str, list[str]] = {}
    for outcome in run(path.read_text()):
        if outcome.status == UNSUPPORTED:
            lines.setdefault(outcome.why, []).append(str(outcome.line))
    for feature, found in sorted(lines.items()):
        yield f"{path.name}\t{feature}\t{','.join(found)}"
