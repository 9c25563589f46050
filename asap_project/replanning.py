"""The planner and the accuracy watch of a running node: what they are made of, and the threads that run them."""

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress

from django.db import close_old_connections, connection
from prometheus_client import CollectorRegistry

from asap_project.config.schema import Config
from asap_project.planning import planner_settings
from ingest.sources.base import Pace
from precompute.clock import Clock
from precompute.evaluate.context import Features
from precompute.evaluate.limits import Limits
from precompute.in_force import PlanInForce
from precompute.lasting import attempt
from precompute.panes import last_end
from precompute.planner.cardinality import OnHead
from precompute.planner.measured import Measured, Stopped
from precompute.query_node import QueryNode
from query.elsewhere import Elsewhere
from query.engine import QueryEngine
from query.metrics import WatchMetrics
from query.replanner import Replanner, ReplanOptions
from query.tiers.head import HeadTier
from query.tiers.summary import SummaryTier
from query.tracker import Tracker, TrackerOptions
from query.watch import AccuracyWatch, WatchOptions

logger = logging.getLogger(__name__)

_NICE = 10
_LONGEST_MEASURE_MS = 5000
_EXCHANGED_S = 1.0


def replanner_of(config: Config, node: QueryNode, in_force: PlanInForce) -> Replanner:
    """The planner over what a node holds; it measures at the newest sealed pane's end."""
    source, engine, own = node.source(1), node.engine, config.planner

    def measure() -> OnHead:
        at_ms = last_end(engine.sealed_ms(), config.engine.minibatch.window_size)
        return OnHead(source, at_ms, node.clock, _LONGEST_MEASURE_MS)

    scrape_ms = config.query_engine.prometheus_scrape_interval
    counting = TrackerOptions(config.engine.minibatch.window_size, scrape_ms, own.max_requirements, own.half_life)
    options = ReplanOptions(own.interval, own.retire_after)
    tracker, settings = Tracker(counting, node.clock), planner_settings(config)
    return Replanner(tracker, in_force, settings, Measured(measure), options, node.clock)


def features_of(config: Config) -> Features:
    options = config.query_engine
    return Features(options.delayed_name_removal, options.experimental_functions)


def watch_of(
    config: Config, node: QueryNode, summary: SummaryTier, head: HeadTier, in_force: PlanInForce,
    registry: CollectorRegistry,
) -> AccuracyWatch:  # fmt: skip
    """The accuracy watch over a node."""
    options = WatchOptions(
        config.planner.watch_share, Limits(config.query_engine.max_samples), features_of(config),
        config.query_engine.evaluation_interval,
    )  # fmt: skip
    metrics = WatchMetrics(registry)
    return AccuracyWatch(node.engine, node.source(1), summary, head, in_force, options, metrics, node.clock)


def give_way() -> None:
    """Let all other threads go first, where the system knows priorities of threads."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


class Replanning:
    """One thread; it plans in the middle between two ticks, so that the tick that a change asks for finds room."""

    def __init__(
        self, replanner: Replanner, width_ms: int, lateness_ms: int, clock: Clock, leads: Callable[[], bool]
    ) -> None:
        """leads: whether this process is to plan now; asked each time."""
        self._replanner, self._leads, self._stopped = replanner, leads, threading.Event()
        self._pace = Pace(width_ms, lateness_ms + width_ms // 2, clock)
        self._thread = threading.Thread(target=self._run, name="asap-planner")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more plans; waits for what is being measured."""
        self._stopped.set()
        self._replanner.stop()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        give_way()
        for _ in self._pace.beats(self._stopped):
            close_old_connections()
            try:
                if self._leads():
                    self._replanner.run()
            except Stopped:
                break
            except Exception:  # whatever it is, the plan in force stays, and the node goes on
                logger.exception("planning failed; it is tried again at the next tick")
        connection.close()


class Exchanging:
    """One thread, by which the query engines of a cluster tell each other what they are asked."""

    def __init__(self, elsewhere: Elsewhere, engine: QueryEngine, tracker: Tracker) -> None:
        self._elsewhere, self._engine, self._tracker = elsewhere, engine, tracker
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="asap-elsewhere")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when nothing is told or counted any more."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        give_way()
        while not self._stopped.wait(_EXCHANGED_S):
            attempt(self._exchange, "telling what is asked")

    def _exchange(self) -> None:
        self._elsewhere.exchange(self._engine.planned, self._tracker)


class Watching:
    """One thread, which compares."""

    def __init__(self, watch: AccuracyWatch) -> None:
        self._watch, self._thread = watch, threading.Thread(target=self._run, name="asap-watch")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Waits for what is being compared."""
        self._watch.stop()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        give_way()
        self._watch.run()
        connection.close()
