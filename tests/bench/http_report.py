"""docs/benchmarks-http.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench import usage
from tests.bench.data import STEPS

if TYPE_CHECKING:
    from tests.bench.http import Measured, Results

PATH = Path(__file__).resolve().parents[2] / "docs" / "benchmarks-http.md"

_INTRODUCTION = """# Small queries over HTTP, measured

Written by `make bench-http` (`tests/bench/http.py`); not edited by hand. ASAP beside Prometheus: the same samples, the
same requests, one system at a time on one machine.

- A request is a POST of a form, as Grafana's data source sends it, over connections that are kept alive; as soon as
  one has answered it is asked again. Five seconds are measured after a second of warming.
- CPU is user + system of all of a server's processes. The load comes from a process of its own on the same machine,
  whose CPU stands apart, as a share of one core.
- Answers must be those of Prometheus. Instant queries are asked 1 ms off the samples' times, from the head; that one
  from summaries on them.
- Ratios of requests per CPU-second; above 1 they are in ASAP's favour.
"""


def page(results: Results) -> str:
    """The whole page."""
    data = results.data
    machine = f"{usage.cpu_model()}, {usage.cores()} cores, {usage.memory_gib():.0f} GiB of memory"
    size = f"{data.series:,} series × {STEPS} samples, an hour at 15 s; {results.begun}; {machine}.\n"
    systems = [f"- {one.title} {one.version}; {one.options}" for one in results.outcomes]
    return "\n".join([_INTRODUCTION, size, *systems, "", _queries(results), _figures(results), _agreement(results)])


def _queries(results: Results) -> str:
    seen = dict.fromkeys(one.question for one in results.outcomes[0].measured)
    return "".join(f"- {question.name}: `{question.asked.text}`\n" for question in seen)


def _figures(results: Results) -> str:
    header = ["query", "connections"]
    for one in results.outcomes:
        header += [f"{one.title}: requests per CPU-second", "per second", "p50, p99; ms", "load, cores"]
    header += [f"× {one.title}" for one in results.outcomes[1:]]
    rows = []
    for k, ours in enumerate(results.outcomes[0].measured):
        row = [ours.question.name, str(ours.connections)]
        for one in results.outcomes:
            row += _cells(one.measured[k])
        row += [f"{ours.per_cpu_s / one.measured[k].per_cpu_s:.2f}" for one in results.outcomes[1:]]
        rows.append(row)
    return _table(header, rows)


def _cells(made: Measured) -> list[str]:
    latency = f"{made.quantile_ms(0.5):.2f}, {made.quantile_ms(0.99):.2f}"
    return [f"{made.per_cpu_s:,.0f}", f"{made.per_s:,.0f}", latency, f"{made.client_cpu_s / made.wall_s:.2f}"]


def _agreement(results: Results) -> str:
    wrong = results.wrong()
    return "\n".join(["**Answers differ:**\n", *(f"- {text}" for text in wrong)]) if wrong else "All answers agree.\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (header, ["---"] * len(header), *rows)
    return "".join(f"| {' | '.join(cell.replace('|', '·') for cell in line)} |\n" for line in lines)
