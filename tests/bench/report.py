"""docs/benchmarks.md: one section per scale, each replaced as a whole by a run of that scale."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.bench import usage
from tests.bench.bodies import ONE, TWENTY
from tests.bench.data import PATTERNS, STEPS
from tests.bench.measure import QUERY, Phase
from tests.bench.results import Result, Run

PATH = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"

_INTRODUCTION = f"""# Benchmarks

Written by `make bench` (`tests/bench`); not edited by hand. ASAP beside Prometheus and VictoriaMetrics: the same
bodies, the same queries, one system at a time on one machine, each with an empty data folder.

    make bench                  # medium, some minutes
    make bench SCALE=small      # a look at whether it runs
    make bench SCALE=full       # 189,000 series
    make bench SCALE=0.1        # a tenth of full

Prometheus and VictoriaMetrics are Debian's packages `prometheus` and `victoria-metrics`.

How it is measured:

- `sensor_reading` in {len(PATTERNS)} patterns × regions × services × hosts, one hour at 15 s, all samples on the
  multiples of 15 s, ending at the run's start, written in time order, values of full precision. Every write must be
  answered with 204.
- Bodies are encoded and packed beforehand. The client is one process with one connection, kept alive, one request at
  a time; it shares the cores, and its CPU is not counted. {ONE.series_per_request:,} series a request at one sample
  per series, {TWENTY.series_per_request:,} at twenty.
- CPU is user + system of all of a server's processes from the first request until it has settled (no summary waits;
  nothing more is flushed or collected), so that work put off until after the reply counts. ASAP's ticks, which make
  the summaries, are reported apart. Wall time is that of the requests.
- Queries: `{QUERY}` at the hour's last pane end, and over the hour at 15 s step; the head tier is asked the same
  1 ms later, off the pane grid. The same query is repeated, up to 300 times or 20 s, at least 5 times, after
  warm-ups where it is fast; caches of whole answers are off (ASAP, VictoriaMetrics) or do not exist (Prometheus).
  Decoded summaries may stay in ASAP's memory between two of them. Where n is small, p99 is the slowest.
- Memory is the resident set, pages shared by a server's processes counted once (Pss).
- Ratios above 1 are in ASAP's favour.
"""

_TARGETS_NOTE = "Targets are those for the full scale."


def write(run: Run, path: Path = PATH) -> None:
    """Put the run's section in place of the one of its scale; other sections stay."""
    kept = sections(path.read_text()) if path.exists() else {}
    kept[run.scale] = section(run)
    path.write_text("\n".join([_INTRODUCTION, *(kept[scale] for scale in sorted(kept, key=_rank))]))


def sections(text: str) -> dict[str, str]:
    """The sections of a report by their scale."""
    parts = re.split(r"^(?=## Scale )", text, flags=re.MULTILINE)[1:]
    return {part.split("\n", 1)[0].removeprefix("## Scale ").strip(): part.rstrip("\n") + "\n" for part in parts}


def _rank(scale: str) -> tuple[int, str]:
    named = ("full", "medium", "small")
    return (named.index(scale) if scale in named else len(named)), scale


def section(run: Run) -> str:
    """One scale's figures."""
    parts = [_heading(run), _ingest(run), _ticks(run), _queries(run), _freshness(run), _size(run), _agreement(run)]
    return "\n".join(part for part in parts if part)


def _heading(run: Run) -> str:
    data = run.data
    machine = f"{usage.cpu_model()}, {usage.cores()} cores, {usage.memory_gib():.0f} GiB of memory"
    lines = [
        f"## Scale {run.scale}\n",
        f"{data.series:,} series × {STEPS} samples = {data.samples:,} samples; {run.begun}; {machine}.\n",
    ]
    lines += [f"- {r.title} {r.version}; {r.options}" for r in run.results]
    return "\n".join(lines) + "\n"


def _ingest(run: Run) -> str:
    rows = []
    loads = (ONE, "500,000", [r.one for r in run.results]), (TWENTY, "1,500,000", [r.twenty for r in run.results])
    for kind, target, each in loads:
        per = f"{kind.samples_per_series} per series and request"
        rows += [
            _row(f"samples per CPU-second, {per}", target, [load.whole.per_cpu_s for load in each]),
            _row("… after each series' first request", "", [load.rest.per_cpu_s for load in each]),
            _row(f"samples per second of wall time, {per}", "", [load.whole.per_wall_s for load in each]),
        ]
    rows.append(_row("new series per CPU-second", "", [r.one.first.per_cpu_s for r in run.results]))
    return _titled("Ingest", _table(_side_by_side(run), rows), _TARGETS_NOTE)


def _row(what: str, target: str, figures: Sequence[float]) -> list[str]:
    """Figures of which more is better, and ASAP's ratio to each peer."""
    ratios = [f"{figures[0] / figure:.1f}" for figure in figures[1:]]
    return [what, target, *(_rounded(figure) for figure in figures), *ratios]


def _side_by_side(run: Run) -> list[str]:
    titles = [result.title for result in run.results]
    return ["", "target", *titles, *(f"× {title}" for title in titles[1:])]


def _ticks(run: Run) -> str:
    asap = run.result("ASAP")
    if asap is None:
        return ""
    rows = []
    for kind, load in ((ONE, asap.one), (TWENTY, asap.twenty)):
        whole: Phase = load.whole
        per_pane = f"{1000 * whole.tick_cpu_s / max(load.panes, 1):.1f}"
        rows.append([f"{kind.samples_per_series} per series and request", f"{whole.cpu_s:.1f}",
                     f"{whole.tick_cpu_s:.1f}", f"{load.panes:,}", per_pane])  # fmt: skip
    header = ["ASAP", "ingest CPU, s", "ticks CPU, s", "panes committed", "CPU per pane, ms"]
    note = "Panes are made again as samples of their reach arrive, and empty ones before and after the hour count."
    return _titled("", _table(header, rows), note)


def _queries(run: Run) -> str:
    targets = {("instant", "summary"): "5 ms", ("range", "summary"): "30 ms", ("instant", "head"): "50 ms"}
    rows = []
    for name in ("instant", "range"):
        for result in run.results:
            for answer in (a for a in result.answers if a.name == name):
                timing = answer.timing
                rows.append([
                    name, f"{result.title} {timing.tier}".strip(), targets.get((name, timing.tier), ""),
                    _ms(timing.median_s), _ms(timing.p99_s), str(len(timing.took_s)), _ms(timing.cpu_s),
                    *(_times_faster(run, name, tier, timing.median_s) for tier in ("summary", "head")),
                ])  # fmt: skip
    header = ["query", "answered by", "target", "median, ms", "p99, ms", "n", "CPU per query, ms",
              "median ÷ summary's", "median ÷ head's"]  # fmt: skip
    return _titled("Queries over HTTP", _table(header, rows), "")


def _times_faster(run: Run, name: str, tier: str, median_s: float) -> str:
    asap = run.result("ASAP")
    answer = asap.answer(name, tier) if asap else None
    return f"{median_s / answer.timing.median_s:.1f}" if answer else ""


def _freshness(run: Run) -> str:
    asap = run.result("ASAP")
    if asap is None or not asap.served_s:
        return ""
    waits = ", ".join(f"{wait:.2f}" for wait in asap.served_s)
    text = f"Seconds from a pane's seal to its summary being served, under live writes of all series: {waits}.\n"
    return _titled("Freshness", text, "")


def _size(run: Run) -> str:
    series = run.data.series

    def per_series(result: Result) -> str:
        return _rounded((result.one.after_first.memory - result.one.empty.memory) / series)

    def per_sample(result: Result) -> str:
        return f"{(result.one.after_all.memory - result.one.empty.memory) / run.data.samples:.1f}"

    def on_disk(result: Result) -> str:
        return f"{result.disk_bytes / run.data.samples:.1f}"

    rows = [
        ["memory, idle and empty, MB", "", *(f"{r.one.empty.memory / 1e6:.0f}" for r in run.results)],
        ["memory above that per series, at one sample each, bytes", "", *map(per_series, run.results)],
        ["memory above that per sample, after the hour, bytes", "", *map(per_sample, run.results)],
        ["memory after the hour, MB", "", *(f"{r.one.after_all.memory / 1e6:.0f}" for r in run.results)],
        ["on disk per sample, stopped after the run, bytes", "", *map(on_disk, run.results)],
        *_head_rows(run),
    ]
    return _titled("Size", _table(["", "target", *(r.title for r in run.results)], rows), _TARGETS_NOTE)


def _head_rows(run: Run) -> Iterable[list[str]]:
    asap = run.result("ASAP")
    if asap is None:
        return []
    blank = [""] * (len(run.results) - 1)
    first, every = asap.one.after_first, asap.one.after_all
    return [
        ["ASAP's head per series, at one sample each, bytes", "1,000", _rounded(first.head / run.data.series), *blank],
        ["ASAP's head per sample, after the hour, bytes", "20", f"{every.head / every.samples:.1f}", *blank],
    ]


def _agreement(run: Run) -> str:
    rows = [
        [a.name, f"{r.title} {a.timing.tier}".strip(), f"{a.deviation.points:,}", f"{a.deviation.largest:.2g}",
         f"{a.deviation.bound:g}", "yes" if a.deviation.is_right else "**no**"]
        for r in run.results
        for a in r.answers
    ]  # fmt: skip
    header = ["query", "answered by", "points", "largest deviation", "bound", "all there and within it"]
    note = (
        "Deviation from the exact quantile of the generated values, as a share of the larger magnitude of the two\n"
        "neighbouring order statistics."
    )
    return _titled("Agreement", _table(header, rows), note)


def _titled(title: str, body: str, note: str) -> str:
    head = f"### {title}\n\n" if title else ""
    return f"{head}{body}" + (f"\n{note}\n" if note else "")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (header, ["---"] * len(header), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.2f}" if seconds < 0.1 else f"{1000 * seconds:,.0f}"


def _rounded(figure: float) -> str:
    """Three digits."""
    if figure < 1000:
        return f"{figure:.3g}"
    unit = 10 ** (len(str(int(figure))) - 3)
    return f"{round(figure / unit) * unit:,.0f}"
