"""From the config to what the planner keeps to, and a workload's files planned."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from asap_project.config.schema import Config
from precompute.planner.cardinality import Unknown
from precompute.planner.plan import PlannerSettings
from query.workloads.base import Zooms
from query.workloads.counting import Server
from query.workloads.coverage import Covered, Language, covered
from query.workloads.files import read


def planner_settings(config: Config) -> PlannerSettings:
    """The planner's settings, with the config's limits."""
    own, batch = config.planner, config.engine.minibatch
    return PlannerSettings(
        batch.window_size, config.query_engine.prometheus_scrape_interval, own.retention, own.accuracy_sla,
        own.largest_share, own.max_bytes, own.max_cpu_share, batch.max_reach, by_shard=config.mode == "cluster",
    )  # fmt: skip


def plan_files(config: Config, paths: Sequence[Path], range_ms: int, measured_by: str) -> tuple[Covered, list[str]]:
    """The plan for the queries of these files, and what of the files was not read.

    range_ms: what ranges of 5m are read as. measured_by: URL of what counts series and groups; without one neither
    reach nor budget has a limit. Raises WorkloadError.
    """
    engine, batch = config.query_engine, config.engine.minibatch
    zooms = Zooms(batch.window_size, engine.prometheus_scrape_interval, tuple(sorted(config.planner.zoom_steps)))
    files = [read(path, zooms) for path in paths]
    asked = next((one.quantile for one in files if one.quantile), "")
    settings = planner_settings(config)
    settings = settings.with_quantile(asked) if asked else settings
    settings = replace(settings, labels={name: labels for one in files for name, labels in one.labels.items()})
    language = Language(engine.lookback_delta, engine.evaluation_interval, range_ms)
    queries = [query for one in files for query in one.queries]
    if measured_by:
        found = covered(queries, settings, Server(measured_by), language)
    else:
        found = covered(queries, settings.unlimited(), Unknown(), language)
    return found, [*(note for one in files for note in one.notes), *_replaced(asked, found)]


def _replaced(asked: str, found: Covered) -> Iterator[str]:
    """What quantiles come from where the sketch that a file asks for would not do."""
    used = {name for kept in found.plan.aggregations for name in kept.accumulators if name.startswith("quantile")}
    if asked and used:
        yield f"{asked} is not as accurate as asked for: quantiles come from {', '.join(sorted(used))}"
