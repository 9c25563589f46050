"""A look at Redis servers as a role starts: lines about what they would lose, an error for what they would forget."""

import logging
from collections.abc import Callable, Mapping

from precompute.cluster.fitness import Judgement, judge_broker
from precompute.cluster.server import Server, ServerDown
from precompute.errors import UnfitServer

logger = logging.getLogger(__name__)


def look_at(server: Server, judge: Callable[[Mapping[str, str]], Judgement]) -> None:
    """Warn of what it would lose. Raises UnfitServer where it may not be used at all; one that cannot be asked now is
    looked at when the next role starts."""
    try:
        judgement = judge(server.info())
    except ServerDown as error:
        logger.warning("%s; how it is set up is not known", error)
        return
    for note in judgement.notes:
        logger.info("Redis at %s: %s", server.name, note)
    for warning in judgement.warnings:
        logger.warning("Redis at %s: %s", server.name, warning)
    if judgement.refusals:
        raise UnfitServer(f"Redis at {server.name} cannot hold the log: {'; '.join(judgement.refusals)}")


def look_at_broker(url: str) -> None:
    """The same for Celery's server, of which nothing is refused."""
    server = Server(url)
    look_at(server, judge_broker)
    server.close()
