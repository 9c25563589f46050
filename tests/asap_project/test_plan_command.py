"""`python manage.py plan`, run as a user runs it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.asap_project.test_commands import MANAGE, run
from tests.bench.client import WRITE_HEADERS
from tests.ingest.wire import encode_write_request, snappy
from tests.ports import free_port
from tests.running import asap

QUERIES = ['sum(m{job="a"})', "quantile by (job) (0.9, m)", "topk(3, n)", "m", "sum by (pod) (m)"]


def workload(folder: Path, queries: list[str] | None = None) -> str:
    path = folder / "queries.jsonl"
    path.write_text("\n".join(json.dumps({"expr": text}) for text in queries or QUERIES))
    return str(path)


def as_json(folder: Path, *arguments: str) -> dict[str, Any]:
    done = run([*MANAGE, "plan", "--json", *arguments], folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_counts_what_is_served_and_why_the_rest_is_not(tmp_path: Path) -> None:
    found = as_json(tmp_path, "--workload", workload(tmp_path, [*QUERIES, "sum(", "sum(rate(x[2h]))"]))
    counts = {name: found[name] for name in ("parsed", "eligible", "served", "aggregations", "reasons")}
    assert counts == {
        "parsed": 6, "eligible": 5, "served": 4, "aggregations": 2, "reasons": {"no summary answers topk": 1},
    }  # fmt: skip
    assert [one["query"] for one in found["unparsed"]] == ["sum("]
    assert found["reach"] == {"longest": "2h", "max_reach": "1h", "beyond": 1}
    kept = {one["aggregations"][0]["expr"]: one for one in found["plan"]}
    assert kept["m"]["aggregations"][0]["grouping"] == "by (job, pod)"
    assert (kept["m"]["requirements"], kept["m"]["bound"]) == (3, "0.01 relative")


def test_it_says_the_same_in_words_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = workload(tmp_path)
    done = run([*MANAGE, "plan", "--workload", path, "--planner.accuracy-sla", "0.95"], tmp_path)
    assert "keep      m by (job, pod): quantile(alpha=0.05), sum" in done.stdout
    assert "4 have a selector under an aggregation operator, 3 of them come from groups" in done.stdout
    assert "not served: no summary answers topk" in done.stdout
    assert [one.name for one in tmp_path.iterdir()] == ["queries.jsonl"]


def test_ranges_of_collections_are_read_as_another_one(tmp_path: Path) -> None:
    path = workload(tmp_path, ["sum(rate(x[5m]))", "sum(rate(x[10m]))"])
    found = as_json(tmp_path, "--workload", path, "--range", "75s")
    assert sorted(one["aggregations"][0]["expr"] for one in found["plan"]) == ["rate(x[10m])", "rate(x[1m15s])"]


def test_a_range_that_follows_the_zoom_is_one_decision_with_an_aggregation_for_each_step(tmp_path: Path) -> None:
    target = {"expr": 'sum by (job) (rate(x{pod=~"$pod"}[$__rate_interval]))'}
    (tmp_path / "board.json").write_text(json.dumps({"panels": [{"targets": [target]}]}))
    (kept,) = as_json(tmp_path, "--workload", "board.json", "--planner.zoom-steps", '["15s", "2m"]')["plan"]
    assert [(one["expr"], one["width"]) for one in kept["aggregations"]] == [
        ("rate(x[1m])", "15s"), ("rate(x[2m15s])", "2m"),
    ]  # fmt: skip
    assert {one["grouping"] for one in kept["aggregations"]} == {"by (job, pod)"}
    assert kept["zoom_steps"] == ["15s", "2m"]


@pytest.mark.parametrize(
    ("k", "kept", "notes"),
    [
        # 200 is the default, which the accuracy may change
        (200, "kll(k=269)", []),
        (100, "quantile", ["kll(k=100) is not as accurate as asked for: quantiles come from quantile"]),
    ],
)
def test_a_sketch_that_a_file_asks_for_is_kept_if_it_is_as_accurate_as_asked_for(
    tmp_path: Path, k: int, kept: str, notes: list[str]
) -> None:
    config = f"""
        query_groups:
          - queries: ["quantile by (pattern) (0.99, sensor_reading)", "quantile by (pattern) (0.5, sensor_reading)"]
            repetition_delay: 10
            controller_options: {{accuracy_sla: 0.99, latency_sla: 1}}
        sketch_parameters: {{DatasketchesKLL: {{K: {k}}}}}
    """
    (tmp_path / "controller-config.yaml").write_text(config)
    found = as_json(tmp_path, "--workload", "controller-config.yaml")
    assert found["plan"][0]["aggregations"][0]["accumulators"] == [kept]
    assert found["notes"] == notes


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--workload", "nowhere.json"], "nowhere.json cannot be read: No such file or directory"),
        (["--workload", "broken.json"], "broken.json:1 is no JSON"),
        (["--workload", "queries.jsonl", "--measure", f"http://127.0.0.1:{free_port()}"], "cannot be asked: "),
        (["--workload", "queries.jsonl", "--measure", "nonsense"], "nonsense cannot be asked: unknown url type"),
        (["--workload", "queries.jsonl", "--range", "soon"], "should be a duration with a unit"),
        ([], "the following arguments are required: --workload"),
    ],
)
def test_what_cannot_be_read_or_asked_is_one_line_and_exit_code_2(
    tmp_path: Path, arguments: list[str], line: str
) -> None:
    workload(tmp_path)
    (tmp_path / "broken.json").write_text("{")
    done = run([*MANAGE, "plan", *arguments], tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.e2e
def test_series_and_groups_are_counted_by_a_running_asap(tmp_path: Path) -> None:
    with asap(tmp_path / "asap") as running:
        now_ms = int(float(running.get("/api/v1/query", query="time()").json()["data"]["result"][1]) * 1000)
        rows = [((("__name__", "m"), ("job", str(k % 4)), ("pod", f"p{k}")), [(now_ms, 1.0)]) for k in range(200)]
        headers = {name.replace("-", "_"): text for name, text in WRITE_HEADERS.items()}
        assert running.post("/api/v1/write", snappy(encode_write_request(rows)), **headers).status == 204
        found = as_json(tmp_path, "--workload", workload(tmp_path), "--measure", running.url)
        clash = workload(tmp_path, ["sum(m * on (job) m)"])
        failed = as_json(tmp_path, "--workload", clash, "--measure", running.url)
    (kept,) = found["plan"]
    assert (kept["series"], kept["groups"], kept["aggregations"][0]["grouping"]) == (200, 4, "by (job)")
    assert [one["detail"] for one in found["refused"]] == ["200 groups of 200 series"]
    assert found["served"] == 2
    assert "many-to-many" in failed["refused"][0]["detail"]
    assert failed["reasons"] == {"it cannot be evaluated": 1}
