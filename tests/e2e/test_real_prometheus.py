"""A real Prometheus beside us, over the same samples: the same answers, from the head and from summaries.

Its version 2.42 includes the left edge of a range and of the lookback, so steps are chosen where no sample lies on one.
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from precompute.clock import SystemClock
from tests.e2e.expressions import DIFFERENT_IN_2_42, FROM_SUMMARIES, FROM_THE_HEAD, RATE_S, REFUSED_BY_BOTH
from tests.e2e.pair import EXTERNAL, JOBS, Pair, pair, restarted
from tests.e2e.shop import FLOORS, HELP, Shop, open_shop
from tests.e2e.talking import await_tier, crash, differences, instant, points, posted, ranged, seconds, tier
from tests.ports import free_port
from tests.running import Program, poll_until

pytestmark = pytest.mark.e2e

GATHERED_SCRAPES = 16
STEPS = 6
PAIRS = 3
QUANTILE_BOUND = 0.01


@pytest.fixture(scope="module")
def both(prometheus_binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both systems, with some seconds of samples, no job scraped at whole seconds: `end_ms` would find no time then.

    A Prometheus draws when in its second it scrapes a target from the target's address.
    """
    for _ in range(PAIRS):
        folder: Path = tmp_path_factory.mktemp("pair")
        with open_shop() as (target, shop), pair(prometheus_binary, folder, target) as running:
            poll_until(lambda shop=shop: shop.scrapes > GATHERED_SCRAPES, 60, "scrapes of the shop", every_s=0.2)
            if not any(at_whole_seconds(running, job) for job in JOBS):
                yield running
                return
    pytest.fail(f"{PAIRS} pairs in a row scrape at whole seconds")


def at_whole_seconds(both: Pair, job: str) -> bool:
    """Whether most of a job's scrapes are; a late one of them may be anywhere."""
    scrapes = both.scraped_ms(job, SystemClock().now_ms())
    return 2 * sum(t % 1000 == 0 for t in scrapes) > len(scrapes)


def end_ms(both: Pair, on_the_grid: bool = False) -> int:
    """A recent time, with `STEPS` steps of a second before it, up to which ASAP has all samples and has sealed.

    Off the pane grid, no scrape has this place in its second, so that ranges of whole seconds have none on an edge; on
    the grid, none lies where one of the ranges of FROM_SUMMARIES begins.
    """
    t_ms = SystemClock().now_ms() // 1000 * 1000 - 3000
    scrapes = [t for job in JOBS for t in both.scraped_ms(job, t_ms)]
    if on_the_grid:
        edges = {t + RATE_S * 1000 + step * 1000 for t in scrapes for step in range(STEPS + 1)}
        t_ms = next(t for t in range(t_ms, t_ms - 4000, -1000) if t not in edges)
    else:
        t_ms = next(t for t in range(t_ms + 500, t_ms + 1000) if t % 1000 not in {s % 1000 for s in scrapes})
    both.await_all(t_ms)
    await_tier(both.asap, "sum(up)", t_ms // 1000 * 1000)
    return t_ms


def compared(both: Pair, query: str, end: int, wanted: str) -> list[str]:
    """How answers to one expression, instant and over a range, differ; empty if they do not."""
    start = end - STEPS * 1000
    pairs = [[instant(side, query, end) for side in (both.asap, both.prometheus)]]
    pairs += [[ranged(side, query, start, end, 1000) for side in (both.asap, both.prometheus)]]
    found = []
    for ours, theirs in pairs:
        if ours.json()["data"]["resultType"] != theirs.json()["data"]["resultType"]:
            found.append("the type of the result differs")
        if wanted and tier(ours) != wanted:
            found.append(f"answered by {tier(ours)!r}, not by {wanted!r}")
        found += differences(points(ours, EXTERNAL), points(theirs))
    return [f"{query}: {line}" for line in found]


def test_answers_from_the_head_are_prometheus_own(both: Pair) -> None:
    end = end_ms(both)
    queries = (*FROM_THE_HEAD, *FROM_SUMMARIES)
    assert not [line for query in queries for line in compared(both, query, end, "head")]


def test_answers_from_summaries_are_prometheus_own(both: Pair) -> None:
    end = end_ms(both, on_the_grid=True)
    for query in FROM_SUMMARIES:
        poll_until(partial(_all_from_summaries, both, query, end), 20, f"{query} from summaries", every_s=0.2)
    assert not [line for query in FROM_SUMMARIES for line in compared(both, query, end, "summary")]


def test_quantiles_from_summaries_keep_to_their_bound(both: Pair) -> None:
    end = end_ms(both, on_the_grid=True)
    for phi in (0, 0.25, 0.5, 0.99, 1):
        query = f"quantile by (floor) ({phi}, shop_temperature_celsius)"
        answer = await_tier(both.asap, query, end)
        values = points(instant(both.prometheus, "shop_temperature_celsius", end))
        for floor in ("", *FLOORS):
            kept = sorted(v for (labels, _), v in values.items() if dict(labels).get("floor", "") == floor)
            key = ((("floor", floor),) if floor else ()), end
            assert abs(points(answer)[key] - _quantile(kept, phi)) <= QUANTILE_BOUND * _scale(kept, phi), (phi, floor)


@pytest.mark.parametrize("query", REFUSED_BY_BOTH)
def test_one_to_many_matching_is_refused_by_both(both: Pair, query: str) -> None:
    end = end_ms(both)
    ours, theirs = (side.get("/api/v1/query", query=query, time=seconds(end)) for side in _sides(both))
    assert (ours.status, ours.json()["errorType"]) == (theirs.status, theirs.json()["errorType"]) == (422, "execution")


@pytest.mark.parametrize("query", DIFFERENT_IN_2_42)
def test_what_is_known_to_differ_still_does(both: Pair, query: str) -> None:
    end = end_ms(both)
    *_, first, _, _, last = both.scraped_ms("shop", end)
    asked = query.replace("__EDGES__", f"{last - first}ms")
    ours, theirs = (list(points(instant(side, asked, last), EXTERNAL).values()) for side in _sides(both))
    assert len(ours) == len(theirs) == 1, DIFFERENT_IN_2_42[query]
    assert ours < theirs, DIFFERENT_IN_2_42[query]


def test_prometheus_counts_no_failed_and_no_dropped_sample(both: Pair) -> None:
    for metric in ("samples_failed_total", "samples_dropped_total", "metadata_failed_total", "exemplars_failed_total"):
        assert both.remote(f"prometheus_remote_storage_{metric}") == 0, metric
    assert both.remote("prometheus_remote_storage_samples_total") > 1000


def test_external_labels_are_on_every_series_that_was_written(both: Pair) -> None:
    series = both.asap.get("/api/v1/series", **{"match[]": '{job=~".+"}'}).json()["data"]
    assert series
    assert {one["site"] for one in series} == {"here"}


def test_metadata_arrives(both: Pair) -> None:
    def arrived() -> bool:
        return "shop_temperature_celsius" in both.asap.get("/api/v1/metadata").json()["data"]

    poll_until(arrived, 60, "metadata")
    theirs, ours = (
        side.get("/api/v1/metadata", metric="shop_temperature_celsius").json()["data"]
        for side in (both.prometheus, both.asap)
    )
    assert ours == theirs == {"shop_temperature_celsius": [{"type": "gauge", "help": HELP, "unit": ""}]}


def test_the_label_endpoints_list_the_same(both: Pair) -> None:
    end = end_ms(both)
    window = {"start": seconds(end - 10_000), "end": seconds(end)}
    for path in ("/api/v1/label/__name__/values", "/api/v1/label/room/values"):
        both_lists = [side.get(path, **window, **{"match[]": '{job="shop"}'}).json()["data"] for side in _sides(both)]
        assert both_lists[0] == both_lists[1]
    shop = {**window, "match[]": '{job="shop"}'}
    names = [set(posted(side, "/api/v1/labels", **shop).json()["data"]) for side in _sides(both)]
    assert names[0] - EXTERNAL.keys() == names[1]


def test_a_restart_in_the_middle_loses_nothing(prometheus_binary: str, tmp_path: Path) -> None:
    """Prometheus sends again what was not acknowledged; afterwards a target that goes away is stale in both."""
    port = free_port()
    with ExitStack() as stack:
        open_ = stack.enter_context(ExitStack())
        target, shop = open_.enter_context(open_shop())
        before = stack.enter_context(pair(prometheus_binary, tmp_path, target, port))
        _await_scrapes(shop, 4)
        crash(before.asap)
        _await_scrapes(shop, 4)
        running = stack.enter_context(restarted(before, tmp_path, port))
        _await_scrapes(shop, 2)
        end = end_ms(running)
        for query in ("count_over_time(shop_temperature_celsius[30s])", "sum_over_time(shop_temperature_celsius[30s])"):
            assert not compared(running, query, end, "head")
        assert running.remote("prometheus_remote_storage_samples_retried_total") > 0
        for metric in ("samples_failed_total", "samples_dropped_total"):
            assert running.remote(f"prometheus_remote_storage_{metric}") == 0
        open_.close()
        _is_stale_in_both(running)


def _is_stale_in_both(both: Pair) -> None:
    gone = poll_until(lambda: _newest(both.prometheus, 'up{job="shop"} == 0'), 20, "the shop is seen as gone")
    both.await_all(gone)
    end = both.off_the_edge(gone, 30)
    for query in ("shop_temperature_celsius", 'up{job="shop"}', "last_over_time(shop_odd[30s])"):
        ours, theirs = (points(instant(side, query, end), EXTERNAL) for side in _sides(both))
        assert not differences(ours, theirs)
    assert not points(instant(both.asap, "shop_temperature_celsius", end))


def _newest(side: Program, query: str) -> int:
    found = points(side.get("/api/v1/query", query=f"timestamp({query})"))
    return max((round(value * 1000) for value in found.values()), default=0)


def _await_scrapes(shop: Shop, more: int) -> None:
    wanted = shop.scrapes + more
    poll_until(lambda: shop.scrapes >= wanted, 30, "more scrapes of the shop")


def _sides(both: Pair) -> tuple[Program, Program]:
    return both.asap, both.prometheus


def _all_from_summaries(both: Pair, query: str, end: int) -> bool:
    return tier(ranged(both.asap, query, end - STEPS * 1000, end, 1000)) == "summary"


def _quantile(ordered: list[float], phi: float) -> float:
    """PromQL's quantile of sorted values (promql/quantile.go)."""
    rank = phi * (len(ordered) - 1)
    low, share = math.floor(rank), rank - math.floor(rank)
    return ordered[low] * (1 - share) + ordered[min(low + 1, len(ordered) - 1)] * share


def _scale(ordered: list[float], phi: float) -> float:
    """The larger magnitude of the two neighbouring order statistics."""
    low = math.floor(phi * (len(ordered) - 1))
    return max(abs(ordered[low]), abs(ordered[min(low + 1, len(ordered) - 1)]))
