"""`make bench-promql SCALE=…`: PromQL over raw samples, beside Prometheus and VictoriaMetrics on the same hour."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from precompute.clock import SystemClock
from precompute.panes import last_end
from tests.bench import promql_report as report
from tests.bench.bodies import TWENTY, Bodies, encode
from tests.bench.client import Client, Reply
from tests.bench.data import STEP_MS, Dataset
from tests.bench.measure import emptied
from tests.bench.promql_data import LanguageDataset
from tests.bench.promql_queries import QUERIES, Measured, Outcome, Query, Results, parameters
from tests.bench.run import SPREADS, TITLES
from tests.bench.systems import LATENESS_MS, Asap, System, systems
from tests.bench.usage import cpu_s

_WARM_UPS = 2
_FEWEST, _MOST = 3, 100
_LONGEST_S = 6.0


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    chosen = [_of_the_head(system) for system in systems(options.systems.split(","))]
    if lacking := [text for system in chosen if (text := system.missing())]:
        print(f"bench: install first: {', '.join(lacking)}", file=sys.stderr)
        return 2
    begun_ms = SystemClock().now_ms()
    data = LanguageDataset(Dataset(SPREADS[options.scale], last_end(begun_ms - LATENESS_MS, STEP_MS)))
    with tempfile.TemporaryDirectory(prefix="asap-bench-", dir=options.folder) as folder:
        _say(f"encoding {data.samples:,} samples of {data.series:,} series")
        bodies = encode(data, TWENTY, Path(folder))
        outcomes = [_outcome(system, data, bodies, Path(folder) / "system") for system in chosen]
    results = Results(options.scale, data, f"{datetime.fromtimestamp(begun_ms / 1000, UTC):%Y-%m-%d}", outcomes)
    print(report.section(results))
    if len(chosen) == len(TITLES):
        report.write(results)
        _say(f"written to {report.PATH.name}")
    for text in results.wrong():
        _say(f"WRONG: {text}")
    return 1 if results.wrong() else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-promql", description=__doc__)
    parser.add_argument("--scale", default="medium", choices=SPREADS)
    parser.add_argument("--systems", default=",".join(TITLES),
                        help="some of them; the report is then printed and not written")  # fmt: skip
    parser.add_argument("--folder", type=Path, help="where data and bodies are kept meanwhile (default: TMPDIR)")
    return parser.parse_args(arguments)


def _of_the_head(system: System) -> System:
    """ASAP without summaries."""
    return Asap({"aggregations": []}) if isinstance(system, Asap) else system


def _outcome(system: System, data: LanguageDataset, bodies: Bodies, home: Path) -> Outcome:
    with system.run(emptied(home)) as program, Client(program.url) as client:
        begun_s = time.perf_counter()
        client.send(system.write_path, bodies.read(0, len(bodies.batches)))
        system.settle(program, client)
        _say(f"{system.title}: loaded in {time.perf_counter() - begun_s:,.1f} s")
        measured = [_measured(system, client, program.process.pid, query, data) for query in QUERIES]
    emptied(home)
    return Outcome(system.title, system.version(), system.options(), tuple(measured))


def _measured(system: System, client: Client, pid: int, query: Query, data: LanguageDataset) -> Measured:
    """One query, asked again and again; what is measured includes the whole body."""
    reply = _asked(system, client, query, data)
    for _ in range(_WARM_UPS if reply.took_s < 1 else 0):
        _asked(system, client, query, data)
    took_s: list[float] = []
    cpu, begun_s = cpu_s(pid), time.perf_counter()
    while len(took_s) < _FEWEST or (len(took_s) < _MOST and time.perf_counter() - begun_s < _LONGEST_S):
        reply = _asked(system, client, query, data)
        took_s.append(reply.took_s)
    spent_s = (cpu_s(pid) - cpu) / len(took_s)
    made = Measured(query, tuple(took_s), spent_s, len(reply.body), reply.json()["data"]["result"])
    _say(f"{system.title}: {1000 * made.median_s:10,.2f} ms  {query.text}")
    return made


def _asked(system: System, client: Client, query: Query, data: LanguageDataset) -> Reply:
    path, asked = parameters(query, data)
    reply = client.get(path, **asked).checked()
    if system.title == "ASAP":
        tier = {name.lower(): text for name, text in reply.headers.items()}.get("x-asap-tier")
        assert tier == "head", f"{query.text} was answered by {tier}"
    return reply


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
