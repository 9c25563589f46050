"""From the config's words to aggregations: those of the config, of the API, and of an earlier run."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from asap_project.config.derived import filled_in, kept
from asap_project.config.items import Aggregation as Item
from asap_project.config.load import place_of, remedy
from asap_project.config.relations import times_of
from asap_project.config.schema import Config
from precompute.aggregations import Aggregation
from precompute.definitions import Definition, Kept
from precompute.errors import BadExpression, QueryError
from precompute.evaluate.expr import duration_text
from precompute.normal import with_steps
from precompute.partials import why_not_by_shard
from query.promql.parse import parse

logger = logging.getLogger(__name__)


def aggregations_of(config: Config) -> list[Aggregation]:
    """The configured aggregations. Raises BadExpression, naming the one that cannot be kept and why."""
    found = [_aggregation(item, config) for item in kept(config)]
    return list({a.id: a for a in found}.values())


def aggregation_from(body: Mapping[str, Any], config: Config) -> Aggregation:
    """One that is written as an item of the config's list. Raises BadExpression, naming the key and the remedy."""
    try:
        item = Item.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = place_of([str(part) for part in first["loc"]])
        raise BadExpression(f"{place} {remedy(first, 'aggregations')}".lstrip()) from error
    for wrong in times_of(item, config.engine.minibatch.window_size):
        raise BadExpression(wrong)
    return _aggregation(filled_in(item, config), config)


def kept_again(definitions: Sequence[Definition], config: Config) -> list[Kept]:
    """What an earlier run kept beside the config's; what this config does not allow is logged and left alone."""
    own = [Kept(aggregation, "config", True) for aggregation in aggregations_of(config)]
    found = {one.aggregation.id: one for one in own}
    for definition in definitions:
        try:
            one = definition.kept(parse)
            _check(one.aggregation, config)
        except QueryError as error:
            logger.error("aggregation %s of the %s is not kept: %s", definition.id, definition.origin, error)
            continue
        _add(found, one)
    return list(found.values())


def _add(found: dict[str, Kept], one: Kept) -> None:
    """Of what is in the config, an earlier run knows only whether it is suspended; of what was in it, nothing."""
    own = found.get(one.aggregation.id)
    if own is not None:
        found[one.aggregation.id] = replace(own, suspended=one.suspended)
    elif one.origin != "config":
        found[one.aggregation.id] = one


def _aggregation(item: Item, config: Config) -> Aggregation:
    assert item.width is not None, "filled in"
    try:
        expr = with_steps(parse(item.expr), config.query_engine.evaluation_interval)
    except QueryError as error:
        raise BadExpression(f"aggregations: {item.expr}: {error}") from error
    aggregation = Aggregation(
        expr, tuple(sorted(item.by or item.without or ())), item.by is None, item.accumulators, item.width,
        config.query_engine.lookback_delta, item.retention,
    )  # fmt: skip
    _check(aggregation, config)
    return aggregation


def _check(aggregation: Aggregation, config: Config) -> None:
    """Raises BadExpression where the config has no room for it, or a cluster no way to make it."""
    minibatch = config.engine.minibatch
    if config.mode == "cluster" and (why := why_not_by_shard(aggregation.expr)):
        raise BadExpression(f"aggregations: {aggregation.expr} cannot be made shard by shard: it has {why}")
    if aggregation.reach_ms > minibatch.max_reach:
        raise BadExpression(
            f"aggregations: {aggregation.expr} looks back {duration_text(aggregation.reach_ms)}; "
            f"engine.minibatch.max_reach is {duration_text(minibatch.max_reach)}: raise it"
        )
    if aggregation.width_ms % minibatch.window_size:
        raise BadExpression(
            f"aggregations: the width of {aggregation.expr}, {duration_text(aggregation.width_ms)}, is no multiple of "
            f"engine.minibatch.window_size, {duration_text(minibatch.window_size)}"
        )
