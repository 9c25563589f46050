"""What an upstream is asked says what the expression says, in words that Prometheus knows."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given

from precompute.errors import QueryError
from precompute.evaluate.expr import Expr
from query.promql.parse import parse
from query.tiers.external_labels import ExternalLabels
from query.tiers.summary import Steps
from query.tiers.upstream_text import Whole, part_text, query_text
from tests.e2e.talking import posted
from tests.query.promql.test_parse import CORPUS, EXPRESSIONS, corpus
from tests.query.tiers.test_upstream_parts import INTERVAL_MS, TIMES
from tests.running import Program, prometheus

WHOLE = Whole(Steps(TIMES, 0, 60_000, 15_000), INTERVAL_MS)
EU = ExternalLabels({"cluster": "eu"})

needs_corpus = pytest.mark.skipif(not CORPUS.is_file(), reason=f"no corpus of dashboard queries at {CORPUS}")


EXACT_WORDS = (
    'up{a="\ufffd\x00\\n"}', "up @ 1.001 offset -5m", "-2 ^ 3", "(-2) ^ 3", "2 ^ -3", "-up ^ 2", "1e-7 + 1e+21 + .5",
    "+Inf + -Inf", "sum by () (up)", "sum without () (up)", "up and on () up", "up * on (a) group_left () up",
    "up == bool 1", "(up)[5m:30s] @ 0", '{__name__="a b"}', '{__name__=~"a|b",__name__!="c"}',
    '{__name__="up",__name__!="x"}', "up offset 1h30m15s1ms", "count_values by (a) ('b', up)",
)  # fmt: skip


def understood() -> Iterator[tuple[str, Expr]]:
    """The corpus' queries, each once, that are read here, and what they say."""
    for text in dict.fromkeys(corpus()):
        try:
            yield text, parse(text)
        except QueryError:
            continue


@given(EXPRESSIONS)
def test_a_query_reads_back_as_the_same(expr: Expr) -> None:
    assert parse(query_text(expr)) == expr


@pytest.mark.parametrize("text", EXACT_WORDS)
def test_odd_ones_too(text: str) -> None:
    assert parse(query_text(parse(text))) == parse(text)


@needs_corpus
def test_what_dashboards_ask_reads_back_as_the_same_and_as_a_part_as_itself() -> None:
    for text, expr in understood():
        assert parse(query_text(expr)) == expr, text
        part = part_text(expr, WHOLE)
        assert part_text(parse(part), WHOLE) == part, text


@pytest.fixture(scope="module")
def upstream(prometheus_binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    flags = "--enable-feature=promql-negative-offset"
    with prometheus(prometheus_binary, tmp_path_factory.mktemp("prometheus"), "global: {}", flags) as program:
        yield program


def reading(program: Program) -> Callable[[str], bool]:
    """Whether a Prometheus reads a text."""

    def reads(text: str) -> bool:
        answer = posted(program, "/api/v1/format_query", query=text)
        assert answer.status in (200, 400), answer.body
        return answer.status == 200

    return reads


@pytest.mark.e2e
@needs_corpus
def test_prometheus_reads_what_dashboards_ask_in_our_words(upstream: Program) -> None:
    reads, count = reading(upstream), 0
    for text, expr in understood():
        if reads(text):
            count += 1
            assert reads(query_text(expr)), text
            assert reads(part_text(expr, WHOLE)), text
            assert reads(query_text(EU.expr(expr))), text
    assert count > 1000


@pytest.mark.e2e
def test_prometheus_reads_odd_ones_too(upstream: Program) -> None:
    reads = reading(upstream)
    for text in EXACT_WORDS:
        assert reads(query_text(parse(text))), text
        assert reads(part_text(parse(text), WHOLE)), text
