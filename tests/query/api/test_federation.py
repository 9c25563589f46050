"""/federate: the newest samples, as a page that a Prometheus scrapes."""

import math
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from precompute.samples import STALE
from tests.query.api.asking import get
from tests.query.served import NOW_MS, Served, served

pytestmark = pytest.mark.urls("query.urls")

TEXT_004 = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    with served(tmp_path) as node:
        monkeypatch.setattr(apps.get_app_config("query"), "parts", node.parts)
        yield node


def page(client: Client, *match: str, **headers: str) -> str:
    response = client.get("/federate", {"match[]": list(match)}, headers=headers)
    assert response.status_code == 200, response.content
    return response.content.decode()


def test_it_works(node: Served, client: Client) -> None:
    node.write({"__name__": "m", "foo": "bar", "instance": "i"}, [(NOW_MS - 1000, 10_000.0)])
    node.write({"__name__": "m", "foo": "boo"}, [(NOW_MS - 2000, 1.0), (NOW_MS - 1000, 2.5)])
    node.write({"__name__": "a"}, [(NOW_MS, math.inf)])
    response = get(client, "/federate", **{"match[]": ["{foo=~'b.*'}", "a"]})
    assert response.headers["Content-Type"] == TEXT_004
    assert response.content.decode() == (
        "# TYPE a untyped\n"
        f'a{{instance=""}} +Inf {NOW_MS}\n'
        "# TYPE m untyped\n"
        f'm{{foo="bar",instance="i"}} 10000 {NOW_MS - 1000}\n'
        f'm{{foo="boo",instance=""}} 2.5 {NOW_MS - 1000}\n'
    )


def test_what_nobody_asks_for_is_an_empty_page(node: Served, client: Client) -> None:
    node.write({"__name__": "m"}, [(NOW_MS, 1.0)])
    node.write({"job": "without a name"}, [(NOW_MS, 1.0)])
    assert page(client) == page(client, "none") == page(client, '{job=~".+"}') == ""


def test_a_series_that_ended_or_is_older_than_the_lookback_is_left_out(node: Served, client: Client) -> None:
    node.write({"__name__": "ended"}, [(NOW_MS - 1000, 1.0), (NOW_MS, STALE)])
    node.write({"__name__": "old"}, [(NOW_MS - 300_000, 1.0)])
    node.write({"__name__": "young"}, [(NOW_MS - 299_999, 1.0)])
    node.write({"__name__": "ahead"}, [(NOW_MS, 1.0), (NOW_MS + 1000, 2.0)])
    expected = f'# TYPE ahead untyped\nahead{{instance=""}} 1 {NOW_MS}\n'
    expected += f'# TYPE young untyped\nyoung{{instance=""}} 1 {NOW_MS - 299_999}\n'
    assert page(client, '{__name__=~".+"}') == expected


def test_a_series_of_two_selectors_stands_there_once(node: Served, client: Client) -> None:
    node.write({"__name__": "m", "a": "b"}, [(NOW_MS, 1.0)])
    assert page(client, "m", '{a="b"}').count("m{") == 1


def test_names_of_other_characters_are_quoted_for_those_who_know_that(node: Served, client: Client) -> None:
    node.write({"__name__": "9.é", "b-c": 'x"\\\n'}, [(NOW_MS, 1.0)])
    assert page(client, '{"9.é"}') == (
        f'# TYPE ___ untyped\n___{{b_c="x\\"\\\\\\n",instance=""}} 1 {NOW_MS}\n'
    )  # fmt: skip
    assert page(client, '{"9.é"}', accept="text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,*/*;q=0.1") == (
        f'# TYPE "9.é" untyped\n{{"9.é","b-c"="x\\"\\\\\\n",instance=""}} 1 {NOW_MS}\n'
    )


def test_errors_are_lines(node: Served, client: Client) -> None:
    response = get(client, "/federate", **{"match[]": "-m"})
    assert (response.status_code, response.headers["Content-Type"]) == (400, "text/plain; charset=utf-8")
    assert response.content.endswith(b"\n") and b"parse error" in response.content
    assert client.post("/federate").status_code == 405


def test_no_more_series_are_read_than_a_query_may_have(tmp_path: Path, client: Client, monkeypatch: Any) -> None:
    with served(tmp_path, max_samples=2) as node:
        monkeypatch.setattr(apps.get_app_config("query"), "parts", node.parts)
        for k in range(3):
            node.write({"__name__": "m", "k": str(k)}, [(NOW_MS, 1.0)])
        response = get(client, "/federate", **{"match[]": "m"})
    assert response.status_code == 422
    assert response.content == b"3 series are selected; query_engine.max_samples is 2\n"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["m", "n:x", "_o"]),
            st.dictionaries(
                st.sampled_from(["job", "instance", "Z", "z"]), st.text(st.characters(codec="utf-8"), min_size=1)
            ),
            st.floats(allow_nan=False) | st.just(math.nan),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_every_value_is_read_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, client: Client, monkeypatch: Any, rows: list[tuple[str, Any, float]]
) -> None:
    wanted = {tuple(sorted({"__name__": name, **labels}.items())): value for name, labels, value in rows}
    with served(tmp_path_factory.mktemp("node")) as node:
        monkeypatch.setattr(apps.get_app_config("query"), "parts", node.parts)
        for labels, value in wanted.items():
            node.write(dict(labels), [(NOW_MS, value)])
        text = page(client, '{__name__=~".+"}')
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found = {
        tuple(sorted({"__name__": s.name, **{n: v for n, v in s.labels.items() if v}}.items())): float(s.value)
        for s in samples
    }
    assert len(samples) == len(found) == len(wanted)
    for labels, value in wanted.items():
        assert found[labels] == value or value != value
