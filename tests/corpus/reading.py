"""The expressions of the corpus, and those in which a filled-in variable contradicts the rest."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from precompute.evaluate.expr import Expr, Selector, selectors
from query.promql.parse import parse
from tests.corpus.patterns import accepted, candidates, metrics

FILE = "dashboard_queries.jsonl"
VARIABLE = "VAR"
"""What stands for the value of a dashboard's variable."""

_PLAIN = re.compile(r"[\w/: -]+")
"""A value that means itself as a regular expression too."""


@dataclass(frozen=True)
class Question:
    """An expression as it stands in the corpus, and as it is asked."""

    origin: str
    text: str
    expr: Expr

    @staticmethod
    def of(text: str, origin: str = "") -> "Question":
        return Question(origin or text, text, parse(text))

    def metrics(self) -> frozenset[str]:
        return frozenset(name for selector in selectors(self.expr) for name in metrics(selector))


def questions(folder: Path) -> list[Question]:
    """The expressions, each once."""
    lines = (folder / FILE).read_text().splitlines()
    return [Question.of(text) for text in dict.fromkeys(json.loads(line)["expr"] for line in lines)]


def filled(question: Question) -> Question | None:
    """The same with a value that is possible where `job=~"integrations/x", job=~"VAR"` selects nothing.

    None where nothing contradicts itself, or where no value would help.
    """
    text = question.text
    for selector in selectors(question.expr):
        for name, value in _fillings(selector):
            text = re.sub(rf'\b{re.escape(name)}\s*(=~?)\s*"{VARIABLE}"', rf'{name}\1"{value}"', text)
    return None if text == question.text else Question.of(text, question.origin)


def _fillings(selector: Selector) -> Iterator[tuple[str, str]]:
    """Labels of which nothing fits all conditions, and what would fit those without a variable."""
    for name in sorted({m.name for m in selector.matchers}):
        own = [m for m in selector.matchers if m.name == name]
        rest = [m for m in own if m.value != VARIABLE]
        fitting = filter(_PLAIN.fullmatch, accepted(rest, candidates(name, rest)))
        if rest != own and not accepted(own, candidates(name, own)) and (value := next(fitting, "")):
            yield name, value
