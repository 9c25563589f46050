"""docs/benchmarks-promql.md: one section per scale, each replaced as a whole by a run of that scale."""

from collections.abc import Sequence
from pathlib import Path

from tests.bench import usage
from tests.bench.data import STEPS
from tests.bench.promql_queries import Measured, Outcome, Results, geometric_mean
from tests.bench.report import sections

PATH = Path(__file__).resolve().parents[2] / "docs" / "benchmarks-promql.md"
TARGETS = {"Prometheus": 25, "VictoriaMetrics": 10}

_INTRODUCTION = """# PromQL over raw samples, measured

Written by `make bench-promql` (`tests/bench/promql.py`); not edited by hand. ASAP without any summary beside
Prometheus and VictoriaMetrics: the same bodies, the same queries, one system at a time on one machine, each with an
empty data folder.

    make bench-promql                  # medium, some minutes
    make bench-promql SCALE=small      # a look at whether it runs
    make bench-promql SCALE=full       # 189,000 gauges, 100,000 counters, 12,000 buckets

- An hour at 15 s. Queries are asked at the hour's end plus 1 ms (where no sample lies on the edge of a range), the
  last one over the hour at a step of 15 s. Over HTTP, one connection, one request at a time; a time is that from the
  request's first byte to the answer's last.
- The same query is repeated for some seconds, at least three times, after warm-ups where it is fast; caches of whole
  answers are off (ASAP, VictoriaMetrics) or do not exist (Prometheus).
- Answers must be those of Prometheus, values within 1e-9. VictoriaMetrics has rules of its own for windows: there the
  series must be the same.
- Ratios are those of the medians; above 1 they are in ASAP's favour. CPU is user + system of all of a server's
  processes.
"""


def write(results: Results, path: Path = PATH) -> None:
    """Put the results in place of those of the same scale; other sections stay."""
    kept = sections(path.read_text()) if path.exists() else {}
    kept[results.scale] = section(results)
    order = [scale for scale in ("full", "medium", "small") if scale in kept]
    path.write_text("\n".join([_INTRODUCTION, *(kept[scale] for scale in order)]))


def section(results: Results) -> str:
    """One scale's figures."""
    data = results.data
    machine = f"{usage.cpu_model()}, {usage.cores()} cores, {usage.memory_gib():.0f} GiB of memory"
    size = (
        f"{data.gauges.series:,} gauges, {data.counters:,} counters, {data.buckets:,} buckets × {STEPS} samples = "
        f"{data.samples:,} samples; {results.begun}; {machine}.\n"
    )
    systems = [f"- {one.title} {one.version}; {one.options}" for one in results.outcomes]
    lines = [f"## Scale {results.scale}\n", size, *systems, "", _times(results), _ratios(results), _agreement(results)]
    return "\n".join(lines)


def _times(results: Results) -> str:
    header = ["query", "points", "answer, kB"]
    header += [f"{one.title}: median, p99, CPU; ms" for one in results.outcomes]
    header += [f"× {one.title}" for one in results.outcomes[1:]]
    rows = []
    for k, ours in enumerate(results.outcomes[0].measured):
        text = ours.query.text + (" over the hour" if ours.query.over_the_hour else "")
        row = [f"`{text}`", f"{len(ours.points()):,}", f"{ours.body_bytes / 1000:,.1f}"]
        row += [_figures(one.measured[k]) for one in results.outcomes]
        row += [f"{results.ratios(peer)[k]:.1f}" for peer in results.outcomes[1:]]
        rows.append(row)
    return _table(header, rows)


def _figures(made: Measured) -> str:
    return ", ".join(f"{1000 * seconds:,.2f}" for seconds in (made.median_s, made.p99_s, made.cpu_s))


def _ratios(results: Results) -> str:
    rows = [_ratio(results, peer) for peer in results.outcomes[1:]]
    return _table(["ASAP against", "geometric mean", "target", "least"], rows) if rows else ""


def _ratio(results: Results, peer: Outcome) -> list[str]:
    ratios = results.ratios(peer)
    return [peer.title, f"{geometric_mean(ratios):.1f}", f"{TARGETS.get(peer.title, 1)}", f"{min(ratios):.1f}"]


def _agreement(results: Results) -> str:
    wrong = results.wrong()
    return "\n".join(["**Answers differ:**\n", *(f"- {text}" for text in wrong)]) if wrong else "All answers agree.\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (header, ["---"] * len(header), *rows)
    return "".join(f"| {' | '.join(cell.replace('|', '·') for cell in line)} |\n" for line in lines)
