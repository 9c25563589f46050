"""`make bench SCALE=…`: ASAP, Prometheus and VictoriaMetrics on the same hour of samples, one after the other."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from precompute.clock import SystemClock
from precompute.panes import last_end
from tests.bench import report
from tests.bench.bodies import ONE, TWENTY, Bodies, encode
from tests.bench.check import Truth
from tests.bench.client import Client
from tests.bench.data import STEP_MS, STEPS, Dataset
from tests.bench.live import seconds_to_summary
from tests.bench.measure import Load, Meter, emptied, queries
from tests.bench.results import Answered, Result, Run
from tests.bench.systems import LATENESS_MS, System, systems
from tests.bench.usage import disk_bytes

SPREADS = {"small": 5, "medium": 12, "full": 30}
TITLES = ("ASAP", "Prometheus", "VictoriaMetrics")


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    chosen = systems(options.systems.split(","))
    if lacking := [text for system in chosen if (text := system.missing())]:
        print(f"bench: install first: {', '.join(lacking)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="asap-bench-", dir=options.folder) as folder:
        run = measured(options.scale, chosen, Path(folder))
    print(report.section(run))
    if len(chosen) == len(TITLES):
        report.write(run)
        _say(f"written to {report.PATH.name}")
    for answer in run.wrong:
        _say(f"WRONG: {answer}")
    return 1 if run.wrong else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--scale", default="medium", type=_scale, help="small, medium, full, or a share of full: 0.1")
    parser.add_argument("--systems", default=",".join(TITLES), type=_titles,
                        help="some of them; the report is then printed and not written")  # fmt: skip
    parser.add_argument("--folder", type=Path, help="where data and bodies are kept meanwhile (default: TMPDIR)")
    return parser.parse_args(arguments)


def _scale(text: str) -> str:
    if text not in SPREADS and not 0 < float(text) <= 4:
        raise argparse.ArgumentTypeError("should be small, medium, full, or a number above 0, at most 4")
    return text


def _titles(text: str) -> str:
    if unknown := set(text.split(",")) - set(TITLES):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not among {', '.join(TITLES)}")
    return text


def _spread(scale: str) -> int:
    return SPREADS.get(scale) or max(1, round(SPREADS["full"] * float(scale) ** (1 / 3)))


def measured(scale: str, chosen: Sequence[System], folder: Path) -> Run:
    """All that is measured, in `folder`."""
    begun_ms = SystemClock().now_ms()
    data = Dataset(_spread(scale), last_end(begun_ms - LATENESS_MS, STEP_MS))
    _say(f"encoding {data.samples:,} samples of {data.series:,} series, twice")
    one, twenty = encode(data, ONE, folder), encode(data, TWENTY, folder)
    truth = Truth(data)
    results = tuple(_result(system, data, one, twenty, truth, folder) for system in chosen)
    return Run(scale, data, f"{datetime.fromtimestamp(begun_ms / 1000, UTC):%Y-%m-%d}", results)


def _result(system: System, data: Dataset, one: Bodies, twenty: Bodies, truth: Truth, folder: Path) -> Result:
    """One system: twenty samples a request into an empty one, then one a request into another, which then answers."""
    home = folder / "system"
    with system.run(emptied(home)) as program, Client(program.url) as client:
        loaded_twenty = _loaded(system, Meter(system, program, client), twenty, data)
    with system.run(emptied(home)) as program, Client(program.url) as client:
        meter = Meter(system, program, client)
        loaded_one = _loaded(system, meter, one, data)
        answers = tuple(_answers(meter, data, truth))
        served_s = seconds_to_summary(system.write_path, program.url, program.url, data) if meter.is_asap else []
    disk = disk_bytes(home)
    emptied(home)
    return Result(
        system.title, system.version(), system.options(), loaded_one, loaded_twenty, answers, disk, tuple(served_s)
    )  # fmt: skip


def _loaded(system: System, meter: Meter, bodies: Bodies, data: Dataset) -> Load:
    load = meter.load(bodies, data)
    _say(f"{system.title}: {load.whole.per_cpu_s:,.0f} samples per CPU-second, {bodies.kind.name} per request")
    return load


def _answers(meter: Meter, data: Dataset, truth: Truth) -> list[Answered]:
    answers = []
    for asked in queries(data, has_tiers=meter.is_asap):
        timing = meter.ask(asked)
        steps = STEPS if asked.name == "range" else 1
        answers.append(Answered(asked.name, timing, truth.deviation(timing.points, timing.tier, steps)))
        _say(f"{meter.system.title}: {asked.name} {timing.tier}: {1000 * timing.median_s:,.2f} ms")
    return answers


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
