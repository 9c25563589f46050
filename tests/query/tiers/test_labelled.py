"""What an upstream with external labels is asked, and what becomes of its answers."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from precompute.clock import ManualClock, SystemClock
from precompute.errors import Unsupported
from query.errors import UpstreamDown
from query.metrics import QueryMetrics
from query.slots import Slots
from query.tiers.labelled import LabelledUpstream
from query.tiers.recognition import LabelLookup
from query.tiers.upstream import Upstream
from tests.ports import free_port
from tests.query.answering import Reply, Server, answering, serving

PAIR = ("cluster", "__replica__")
EU = {"cluster": "eu"}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


class Asking:
    """A labelled upstream; configured None: it is asked for its labels."""

    def __init__(self, url: str, configured: Mapping[str, str] | None) -> None:
        self.clock = ManualClock(1_000_000)
        self.upstream = Upstream(url, 60_000, "", SystemClock(), Slots(1), QueryMetrics(CollectorRegistry()))
        self.lookup = LabelLookup(self.upstream, configured, PAIR, self.clock)
        self.labelled = LabelledUpstream(self.upstream, self.lookup, 100, SystemClock())

    def labels(self) -> dict[str, str]:
        return self.lookup.labels({}, 60_000).added_to({})

    def list(self, path: str, **parameters: Any) -> Any:
        named = {name.replace("match", "match[]"): values for name, values in parameters.items()}
        return json.loads(self.labelled.get(path, named, {}, 60_000).body)["data"]


Maker = Callable[[Mapping[str, str] | None], Asking]


@pytest.fixture
def asking_with(server: Server) -> Iterator[Maker]:
    """Makes labelled upstreams at the server, with these labels configured, and closes them at the end."""
    with contextlib.ExitStack() as made:

        def make(configured: Mapping[str, str] | None) -> Asking:
            asking = Asking(server.url, configured)
            made.callback(asking.upstream.close)
            return asking

        yield make


def success(data: Any) -> Reply:
    return answering(200, json.dumps({"status": "success", "data": data}, separators=(",", ":")).encode())


def config(text: str) -> Reply:
    return success({"yaml": text})


PRINTED = """global:
  scrape_interval: 15s
  external_labels:
    __replica__: a
    cluster: eu
    number: "5"
scrape_configs:
- job_name: x
  external_labels: 1
"""


def test_the_labels_are_those_of_its_config_without_the_replica(server: Server, asking_with: Maker) -> None:
    server.reply = config(PRINTED)
    asking = asking_with(None)
    assert [asking.labels() for _ in range(3)] == [{"cluster": "eu", "number": "5"}] * 3
    assert [path for _, path, _, _ in server.asked] == ["/api/v1/status/config"]


@pytest.mark.parametrize(
    "reply",
    [
        config("global:\n  scrape_interval: 15s\n"), config("scrape_configs: []\n"),
        config("global:\n  external_labels: [1]\n"), config("global:\n  external_labels:\n   - a\n  b"),
        config("global:\n  " + "[" * 5000 + "\n"),
        config("global:\n  x: " + "y" * 100_000 + "\n  external_labels: {a: b}\n"),
        success(None), success([]), answering(404, b"not here"), answering(403, b"no"), answering(200, b"<html>"),
    ],
)  # fmt: skip
def test_it_has_none_where_it_shows_none(server: Server, reply: Reply, asking_with: Maker) -> None:
    server.reply = reply
    assert asking_with(None).labels() == {}


def test_what_is_configured_is_not_asked_for(server: Server, asking_with: Maker) -> None:
    assert asking_with({"cluster": "eu", "__replica__": "a"}).labels() == {"cluster": "eu"}
    assert asking_with({"__replica__": "a"}).labels() == {"__replica__": "a"}
    assert asking_with({}).labels() == {}
    assert not server.asked


def test_they_are_asked_for_again_and_the_last_ones_count_meanwhile(server: Server, asking_with: Maker) -> None:
    asking = asking_with(None)
    server.reply = config(PRINTED)
    assert asking.labels()["cluster"] == "eu"
    server.reply = answering(503, b"starting")
    asking.clock.advance(60_000)
    assert asking.labels()["cluster"] == "eu"
    server.reply = config(PRINTED.replace("eu", "us"))
    asking.clock.advance(5000)
    assert asking.labels()["cluster"] == "us"


def test_where_they_were_never_known_nothing_is_asked() -> None:
    asking = Asking(f"http://127.0.0.1:{free_port()}", None)
    with pytest.raises(UpstreamDown, match="Connection refused"):
        asking.labelled.query("query", {"query": "up", "time": "1"}, {}, 60_000)


def test_a_query_is_asked_in_its_words(server: Server, asking_with: Maker) -> None:
    answer = asking_with(EU).labelled.query("query", {"query": 'sum(up{cluster="eu"})', "time": "1"}, {}, 60_000)
    assert server.asked[0][2]["query"] == ['sum(up{cluster=~"eu|"})']
    assert answer.body == b'{"status":"success"}'


def test_without_labels_a_query_goes_as_it_came(server: Server, asking_with: Maker) -> None:
    asking_with({}).labelled.query("query", {"query": " rate(up[5m] smoothed) ", "time": "1"}, {}, 60_000)
    assert server.asked[0][2]["query"] == [" rate(up[5m] smoothed) "]


@pytest.mark.parametrize("text", ["rate(up[5m] smoothed)", "sum by (cluster) (rate(up[5m] smoothed))"])
def test_a_query_that_is_not_understood_is_refused_since_its_answer_would_lack_labels(
    server: Server, asking_with: Maker, text: str
) -> None:
    wanted = r"smoothed selectors, asked of an upstream with external labels \(cluster.*\), is not supported"
    with pytest.raises(Unsupported, match=wanted):
        asking_with(EU).labelled.query("query", {"query": text, "time": "1"}, {}, 60_000)
    assert server.asked == []


def test_the_series_of_a_range_get_the_labels_and_keep_their_points(server: Server, asking_with: Maker) -> None:
    body = (
        '{"status":"success","data":{"resultType":"matrix","result":['
        '{"metric":{"a":"1"},"values":[[1.5,"1"], [2,"x]"]]},'
        '{"metric":{"cluster":"us"},"values":[],"histograms":[[1,{}]]}]},"warnings":["w"]}'
    )
    server.reply = answering(200, body.encode())
    answer = asking_with(EU).labelled.query("query", {"query": "up[5m]", "time": "1"}, {}, 60_000)
    expected = json.loads(body)
    expected["data"]["result"][0]["metric"]["cluster"] = "eu"
    assert json.loads(answer.body) == expected
    assert b'[[1.5,"1"], [2,"x]"]]' in answer.body


@pytest.mark.parametrize("body", [b"", b"[]", b'{"status":"success"}', b'{"status":"success","data":{"result":[[]]}}'])
def test_a_range_that_is_none_is_no_answer(server: Server, body: bytes, asking_with: Maker) -> None:
    server.reply = answering(200, body)
    with pytest.raises(UpstreamDown, match="answered query with no Prometheus answer"):
        asking_with(EU).labelled.query("query", {"query": "up[5m]", "time": "1"}, {}, 60_000)


def test_names_get_the_labels_where_there_are_series(server: Server, asking_with: Maker) -> None:
    asking = asking_with(EU)
    server.reply = success(["__name__", "job"])
    assert asking.list("labels", match=['up{cluster="eu"}', "down"]) == ["__name__", "cluster", "job"]
    assert server.asked[0][2]["match[]"] == ['up{cluster=~"eu|"}', "down"]
    server.reply = success([])
    assert asking.list("labels") == []


def test_series_get_the_labels_they_lack(server: Server, asking_with: Maker) -> None:
    server.reply = success([{"a": "1"}, {"cluster": "us"}])
    assert asking_with(EU).list("series", match="up") == [{"cluster": "eu", "a": "1"}, {"cluster": "us"}]


def test_exemplars_get_the_labels_of_their_series(server: Server, asking_with: Maker) -> None:
    server.reply = success([{"seriesLabels": {"a": "1"}, "exemplars": [{"value": "6"}]}])
    found = asking_with(EU).list("query_exemplars", query=['up{cluster="us"}'], start="0")
    assert found == [{"seriesLabels": {"cluster": "eu", "a": "1"}, "exemplars": [{"value": "6"}]}]
    assert server.asked[0][2]["query"] == ['label_replace(up{cluster="us"}, "cluster", "eu", "cluster", "")']


@pytest.mark.parametrize(
    ("match", "asked"),
    [
        ([], ['{__name__!="",cluster=""}']),
        (["up", 'x{cluster!="us"}'], ['up{cluster=""}', 'x{cluster!="us",cluster=""}']),
    ],
)
@pytest.mark.parametrize("lacking", [True, False])
def test_a_labels_values_have_its_own_where_a_series_lacks_it(
    server: Server, match: list[str], asked: list[str], lacking: bool, asking_with: Maker
) -> None:
    def reply(request: Any) -> None:
        names = ["__name__"] if lacking else []
        success(names if server.asked[-1][1].endswith("/labels") else ["us"])(request)

    server.reply = reply
    parameters = {"match": match} if match else {}
    assert asking_with(EU).list("label/cluster/values", **parameters) == (["eu", "us"] if lacking else ["us"])
    assert server.asked[1][2]["match[]"] == asked


def test_another_labels_values_are_as_they_are(server: Server, asking_with: Maker) -> None:
    server.reply = success(["a"])
    assert asking_with(EU).list("label/job/values", match='up{cluster="eu"}') == ["a"]
    assert [form["match[]"] for _, _, form, _ in server.asked] == [['up{cluster=~"eu|"}']]


def test_other_lists_are_as_they_are(server: Server, asking_with: Maker) -> None:
    server.reply = success({"groups": []})
    assert asking_with(None).list("rules") == {"groups": []}
    assert len(server.asked) == 1


@pytest.mark.parametrize("body", [b"", b"[]", b'{"status":"success","data":5}', b'{"data":[5]}'])
@pytest.mark.parametrize("path", ["series", "query_exemplars"])
def test_a_list_that_is_none_is_no_answer(server: Server, path: str, body: bytes, asking_with: Maker) -> None:
    server.reply = answering(200, body)
    with pytest.raises(UpstreamDown, match=f"answered {path} with no Prometheus answer"):
        asking_with(EU).list(path)


def test_an_error_of_theirs_is_passed_on(server: Server, asking_with: Maker) -> None:
    server.reply = answering(422, b"too many")
    assert asking_with(EU).labelled.get("series", {"match[]": ["up"]}, {}, 60_000).body == b"too many"
