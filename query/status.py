"""What a node tells of itself, in the words of Prometheus' status endpoints."""

import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from precompute.cardinality import Ranking, cardinality
from precompute.query_node import QueryNode

_NOTHING_MS = ((1 << 63) - 1, -(1 << 63))
"""Oldest and newest time of a head without samples, as Prometheus gives them."""


@dataclass(frozen=True)
class Setup:
    """What a process was started with, fit to be shown: credentials are masked.

    config: as YAML. flags: every option's value by the name of its flag. retention: how long what is kept.
    """

    config: str
    flags: Mapping[str, str]
    retention: str


class NodeStatus:
    """Reads a node; any thread may call it."""

    def __init__(self, node: QueryNode, setup: Setup) -> None:
        self._node, self.setup = node, setup

    def runtime(self) -> dict[str, Any]:
        """Of /status/runtimeinfo; what only a program in Go has is said of threads and processors."""
        started = _moment(self._node.started_ms)
        return {
            "startTime": started,
            "CWD": os.getcwd(),
            "hostname": socket.gethostname(),
            "serverTime": _moment(self._node.clock.now_ms()),
            "reloadConfigSuccess": True,
            "lastConfigTime": started,
            "timeSeriesCount": len(self._node.head.table),
            "corruptionCount": self._node.damaged_records(),
            "goroutineCount": threading.active_count(),
            "GOMAXPROCS": len(os.sched_getaffinity(0)),
            "GOMEMLIMIT": _NOTHING_MS[0],
            "GOGC": "",
            "GODEBUG": "",
            "storageRetention": self.setup.retention,
        }

    def head(self, most: int) -> dict[str, Any]:
        """Of /status/tsdb: the head, and up to `most` of what has the most series."""
        head = self._node.head
        table, extent_ms = head.table, head.extent_ms()
        counted = cardinality(table, most)
        oldest_ms, newest_ms = extent_ms or _NOTHING_MS
        return {
            "headStats": {
                "numSeries": len(table),
                "numLabelPairs": counted.pairs,
                "chunkCount": head.chunks(),
                "minTime": oldest_ms,
                "maxTime": newest_ms,
            },
            "seriesCountByMetricName": _ranked(counted.series_by_metric),
            "labelValueCountByLabelName": _ranked(counted.values_by_label),
            "memoryInBytesByLabelName": _ranked(counted.bytes_by_label),
            "seriesCountByLabelValuePair": _ranked(counted.series_by_pair),
        }

    def replay(self) -> dict[str, int]:
        """Of /status/walreplay: entries of the sample log, and those of them that are in the head."""
        newest, applied = self._node.replayed()
        return {"min": 0, "max": newest, "current": applied}


def _ranked(ranking: Ranking) -> list[dict[str, Any]]:
    return [{"name": name, "value": count} for name, count in ranking]


def _moment(ms: int) -> str:
    """RFC 3339 in UTC, without zeros at its end."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    fraction = f".{ms % 1000:03d}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"
