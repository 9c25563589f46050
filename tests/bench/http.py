"""`make bench-http`: requests per CPU-second and latency of small queries, beside Prometheus on the same samples."""

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from precompute.clock import SystemClock
from precompute.panes import last_end
from tests.bench import http_load
from tests.bench import http_report as report
from tests.bench.bodies import TWENTY, Bodies, encode
from tests.bench.client import Client
from tests.bench.data import METRIC, STEP_MS, Dataset
from tests.bench.measure import OFF_GRID_MS, emptied
from tests.bench.promql_data import COUNTER, LanguageDataset
from tests.bench.run import SPREADS
from tests.bench.systems import ASAP_CONFIG, LATENESS_MS, Asap, System, systems
from tests.bench.usage import cpu_s
from tests.differential.outcomes import Asked, differences, of_json
from tests.e2e.talking import seconds
from tests.running import ROOT

TITLES = ("ASAP", "Prometheus")
CONNECTIONS = (1, 2, 8)
_WARM_S, _MEASURED_S = 1.0, 5.0


@dataclass(frozen=True)
class Question:
    """A query and where it is asked; `tier` is the one that must answer where there are tiers."""

    name: str
    asked: Asked
    tier: str = "head"

    def request(self, host: str) -> bytes:
        """The bytes of a POST as data sources send it."""
        path, params = "/api/v1/query", {"query": self.asked.text, "time": seconds(self.asked.start_ms)}
        if self.asked.step_ms:
            path = "/api/v1/query_range"
            params = {"query": self.asked.text, "start": seconds(self.asked.start_ms),
                      "end": seconds(self.asked.end_ms), "step": seconds(self.asked.step_ms)}  # fmt: skip
        form = urllib.parse.urlencode(params)
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        return f"{head}Content-Length: {len(form)}\r\n\r\n{form}".encode()


@dataclass(frozen=True)
class Measured:
    """One question over some connections."""

    question: Question
    connections: int
    took_s: tuple[float, ...]
    wall_s: float
    server_cpu_s: float
    client_cpu_s: float
    answer: Any = field(repr=False)

    @property
    def per_cpu_s(self) -> float:
        return len(self.took_s) / max(self.server_cpu_s, 0.01)

    @property
    def per_s(self) -> float:
        return len(self.took_s) / self.wall_s

    def quantile_ms(self, phi: float) -> float:
        return float(1000 * np.quantile(self.took_s, phi))


@dataclass(frozen=True)
class Outcome:
    """One system."""

    title: str
    version: str
    options: str
    measured: tuple[Measured, ...]


@dataclass(frozen=True)
class Results:
    """Both systems on one dataset; the first one is ASAP."""

    data: LanguageDataset
    begun: str
    outcomes: Sequence[Outcome]

    def wrong(self) -> list[str]:
        """Where the answers differ."""
        first, *others = self.outcomes
        return [
            f"{ours.question.asked.text}: {found[0]}, {peer.title}"
            for peer in others
            for ours, theirs in zip(first.measured, peer.measured, strict=True)
            if (found := differences(ours.question.asked, of_json(ours.answer), of_json(theirs.answer)))
        ]


def questions(data: LanguageDataset) -> list[Question]:
    """Four small ones and a panel of 100 series × 240 points; just off the samples' times, or on them for summaries."""
    end_ms, off_ms = data.end_ms, data.end_ms + OFF_GRID_MS
    one = f'{METRIC}{{pattern="sine",region="region1",service="svc2",host="host3"}}'
    some = f'sum(rate({COUNTER}{{region="region3"}}[5m]))'
    hundred = f'{METRIC}{{pattern=~"constant|sine|step|spiky",region="region0"}}'
    first_ms = data.times_ms[0] + OFF_GRID_MS
    return [
        Question("a number", Asked("1 + 1", 4000, 4000, 0), ""),
        Question("one series", Asked(one, off_ms, off_ms, 0)),
        Question("49 series", Asked(some, off_ms, off_ms, 0)),
        Question("from summaries", Asked(f"max by (pattern) ({METRIC})", end_ms, end_ms, 0), "summary"),
        Question("100 series × 240 points", Asked(hundred, first_ms, off_ms, STEP_MS)),
    ]


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    chosen = [_uncached(system) for system in systems(options.systems.split(","))]
    if lacking := [text for system in chosen if (text := system.missing())]:
        print(f"bench: install first: {', '.join(lacking)}", file=sys.stderr)
        return 2
    begun_ms = SystemClock().now_ms()
    data = LanguageDataset(Dataset(SPREADS["small"], last_end(begun_ms - LATENESS_MS, STEP_MS)))
    with tempfile.TemporaryDirectory(prefix="asap-bench-") as folder:
        bodies = encode(data, TWENTY, Path(folder))
        outcomes = [_outcome(system, data, bodies, Path(folder) / "system") for system in chosen]
    results = Results(data, f"{datetime.fromtimestamp(begun_ms / 1000, UTC):%Y-%m-%d}", outcomes)
    text = report.page(results)
    print(text)
    if len(chosen) == len(TITLES):
        report.PATH.write_text(text)
    for line in results.wrong():
        _say(f"WRONG: {line}")
    return 1 if results.wrong() else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-http", description=__doc__)
    parser.add_argument("--systems", default=",".join(TITLES),
                        help="some of them; the report is then printed and not written")  # fmt: skip
    return parser.parse_args(arguments)


def _uncached(system: System) -> System:
    """ASAP without the cache of answers to range queries."""
    uncached = {"query_engine": {**ASAP_CONFIG["query_engine"], "cache_bytes": 0}}
    return Asap(uncached) if isinstance(system, Asap) else system


def _outcome(system: System, data: LanguageDataset, bodies: Bodies, home: Path) -> Outcome:
    with system.run(emptied(home)) as program, Client(program.url) as client:
        client.send(system.write_path, bodies.read(0, len(bodies.batches)))
        system.settle(program, client)
        measured = []
        for question in questions(data):
            for connections in CONNECTIONS:
                made = _measured(system, program.url, program.process.pid, question, connections)
                _say(f"{system.title}: {question.name} × {connections}: {made.per_cpu_s:,.0f} per CPU-second")
                measured.append(made)
    return Outcome(system.title, system.version(), system.options(), tuple(measured))


def _measured(system: System, url: str, pid: int, question: Question, connections: int) -> Measured:
    address = urllib.parse.urlsplit(url)
    told = {
        "host": address.hostname, "port": address.port, "request": question.request(address.netloc).decode("latin-1"),
        "connections": connections, "warm_s": _WARM_S, "measured_s": _MEASURED_S,
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.bench.http_load"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        load.stdin.write(json.dumps(told) + "\n")
        load.stdin.flush()
        assert load.stdout.readline() == "warm\n", "the load has failed"
        before_s = cpu_s(pid)
        load.stdin.write("\n")
        load.stdin.flush()
        seen = json.loads(load.stdout.readline())
        spent_s = cpu_s(pid) - before_s
    return _made(system, question, connections, spent_s, seen)


def _made(system: System, question: Question, connections: int, spent_s: float, seen: dict[str, Any]) -> Measured:
    answer = seen["answer"].encode("latin-1")
    if system.title == "ASAP":
        head = answer.partition(b"\r\n\r\n")[0].decode("latin-1").lower()
        tier = next(
            (line.partition(":")[2].strip() for line in head.split("\r\n") if line.startswith("x-asap-tier")), ""
        )
        assert tier == question.tier or not question.tier, f"{question.name} was answered by {tier}"
    body = json.loads(http_load.body_of(answer))
    return Measured(question, connections, tuple(seen["took_s"]), seen["wall_s"], spent_s, seen["cpu_s"], body)


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
