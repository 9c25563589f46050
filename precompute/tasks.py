"""Celery's tasks: kicks, never data. One that is lost, late or doubled changes no result."""

import logging
from typing import cast

from celery import shared_task
from django.apps import apps
from kombu.entity import Exchange, Queue

from precompute.apps import PrecomputeConfig
from precompute.cluster.kicks import Kicks
from precompute.cluster.placement import Kick
from precompute.cluster.server import ServerDown, ServerFull

logger = logging.getLogger(__name__)

_QUEUE_EXPIRES_S = 600
"""A worker that does not come for its messages for so long does not come back; names are seldom used again."""


@shared_task(ignore_result=True)
def tick() -> None:
    """Let this process' engine summarise what is sealed and dirty."""
    core = _core()
    core.engine.run(core.sink)


@shared_task(ignore_result=True)
def place() -> None:
    """Kick every shard's worker; the scheduler sends this once a window, to whichever worker is free."""
    try:
        kicks, made_ms = _kicks().place()
    except (ServerDown, ServerFull) as error:
        logger.warning("%s; no shards are placed, workers tick what they hold", error)
        return
    for kick in kicks:
        _send(kick, made_ms)


@shared_task(ignore_result=True)
def tick_shard(shard: int, made_ms: int, give_to: str = "") -> None:
    """One tick of a shard; with `give_to` its lease is given back after that, and the other worker is kicked."""
    kicks = _kicks()
    try:
        outcome = kicks.tick(shard, made_ms, bool(give_to))
        if give_to and outcome != "stale":
            _send(Kick(shard, give_to), kicks.crew.now_ms())
    except (ServerDown, ServerFull) as error:
        logger.warning("%s; shard %d is not ticked", error, shard)


@shared_task(ignore_result=True)
def store() -> None:
    """Bring final panes into the long-term store."""
    try:
        _kicks().store()
    except (ServerDown, ServerFull) as error:
        logger.warning("%s; nothing is stored", error)


@shared_task(ignore_result=True)
def knock() -> None:
    """A worker's message to itself: does any come?"""
    _kicks().heard()


def queue_of(worker: str) -> Queue:
    """The worker's own queue. Without an exchange of its own: nothing in the broker remembers it once it is empty."""
    name = f"w.{worker}"
    return Queue(name, Exchange(""), routing_key=name, expires=_QUEUE_EXPIRES_S)  # type: ignore[no-untyped-call]


def _send(kick: Kick, made_ms: int) -> None:
    tick_shard.apply_async((kick.shard, made_ms, kick.give_to), queue=queue_of(kick.worker))


def _core() -> PrecomputeConfig:
    return cast(PrecomputeConfig, apps.get_app_config("precompute"))


def _kicks() -> Kicks:
    return cast(Kicks, _core().kicks)
