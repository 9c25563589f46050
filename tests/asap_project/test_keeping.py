"""What an earlier run kept, beside what the config says now."""

from dataclasses import replace

import pytest

from asap_project.config.schema import Config
from asap_project.keeping import aggregations_of, kept_again
from precompute.definitions import Definition, Kept, definition_of
from precompute.errors import BadExpression

ITEM = {"expr": "m", "by": ["job"], "accumulators": ["sum"]}


def config(*items: dict[str, object]) -> Config:
    return Config.model_validate({"aggregations": list(items)})


def definition(**changed: object) -> Definition:
    (found,) = aggregations_of(config(ITEM))
    return definition_of(replace(Kept(found, "planner", False), **changed))  # type: ignore[arg-type]


def test_what_was_planned_or_asked_for_is_kept_again_as_it_was() -> None:
    for changed in ({}, {"origin": "api", "pinned": True}, {"suspended": True}):
        (found,) = kept_again([definition(**changed)], config())
        assert definition_of(found) == definition(**changed)


def test_what_is_in_the_config_too_is_the_configs_and_as_suspended_as_it_was() -> None:
    for suspended in (False, True):
        (found,) = kept_again([definition(origin="config", suspended=suspended)], config(ITEM))
        assert (found.origin, found.pinned, found.suspended) == ("config", True, suspended)


def test_what_the_config_has_lost_is_kept_no_longer() -> None:
    assert kept_again([definition(origin="config", pinned=True, suspended=True)], config()) == []


def test_a_cluster_refuses_what_cannot_be_made_shard_by_shard() -> None:
    joined = {**ITEM, "expr": "max_over_time((m * on (pod) n)[5m:1m])"}
    cluster = Config.model_validate({"mode": "cluster", "aggregations": [joined]})
    with pytest.raises(BadExpression, match="cannot be made shard by shard: it has a subquery over several series"):
        aggregations_of(cluster)
    assert len(aggregations_of(config(joined))) == 1
