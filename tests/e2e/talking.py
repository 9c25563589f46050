"""What the end-to-end tests say to a running server, and how they read its answers."""

import math
import os
import signal
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.ingest.wire import Pairs, encode_write_request, snappy
from tests.running import STOP_S, Answer, Program, http, poll_until

Labels = tuple[tuple[str, str], ...]
Series = Iterable[tuple[Pairs, Iterable[tuple[int, float]]]]

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SNAPPY = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}


def write(program: Program, series: Series, timeout_s: float = 30) -> Answer:
    """One remote-write request of (labels, [(t_ms, value), …])."""
    return http(f"{program.url}/api/v1/write", snappy(encode_write_request(series)), SNAPPY, timeout_s)


def named(metric: str, **labels: str) -> Labels:
    """A label set, sorted as Prometheus sends it."""
    return tuple(sorted({"__name__": metric, **labels}.items()))


def seconds(t_ms: int) -> str:
    """A time as the API takes it."""
    return f"{t_ms // 1000}.{t_ms % 1000:03}"


def instant(program: Program, query: str, t_ms: int) -> Answer:
    """/api/v1/query, which must succeed."""
    return _fine(program.get("/api/v1/query", query=query, time=seconds(t_ms)), query)


def ranged(program: Program, query: str, start_ms: int, end_ms: int, step_ms: int) -> Answer:
    """/api/v1/query_range, which must succeed."""
    asked = {"query": query, "start": seconds(start_ms), "end": seconds(end_ms), "step": seconds(step_ms)}
    return _fine(program.get("/api/v1/query_range", **asked), query)


def posted(program: Program, path: str, **params: Any) -> Answer:
    """A POST with a form, as data sources send it."""
    return http(program.url + path, urllib.parse.urlencode(params, doseq=True).encode(), FORM)


def tier(answer: Answer) -> str:
    """The tiers that took part."""
    return {name.lower(): text for name, text in answer.headers.items()}["x-asap-tier"]


def points(answer: Answer, leave_out: Iterable[str] = ()) -> dict[tuple[Labels, int], float]:
    """Every value of a vector, matrix or scalar, by label set and ms, without the labels in `leave_out`."""
    data, out = answer.json()["data"], {}
    if data["resultType"] == "scalar":
        return {((), _ms(data["result"])): float(data["result"][1])}
    for row in data["result"]:
        labels = tuple(sorted((n, v) for n, v in row["metric"].items() if n not in set(leave_out)))
        for point in row.get("values") or [row["value"]]:
            key = labels, _ms(point)
            assert key not in out, f"twice: {key}"
            out[key] = float(point[1])
    return out


def _ms(point: list[Any]) -> int:
    return round(float(point[0]) * 1000)


def single(answer: Answer) -> float:
    """The value of an answer that has one; NaN where it has none."""
    values = list(points(answer).values())
    assert len(values) <= 1, values
    return values[0] if values else math.nan


def differences(ours: Mapping[Any, float], theirs: Mapping[Any, float], relative: float = 1e-9) -> list[str]:
    """What is only in one of two answers, and values that are further apart than `relative`."""
    only = [f"only here: {key} {ours[key]}" for key in sorted(ours.keys() - theirs.keys())]
    only += [f"only there: {key} {theirs[key]}" for key in sorted(theirs.keys() - ours.keys())]
    return only + [
        f"{key}: {ours[key]!r} here, {theirs[key]!r} there"
        for key in sorted(ours.keys() & theirs.keys())
        if not same(ours[key], theirs[key], relative)
    ]


def same(a: float, b: float, relative: float = 1e-9) -> bool:
    """Whether two values are equal, or near enough; NaN equals NaN."""
    return math.isclose(a, b, rel_tol=relative, abs_tol=1e-300) or (math.isnan(a) and math.isnan(b))


def await_tier(program: Program, query: str, t_ms: int, wanted: str = "summary", timeout_s: float = 30) -> Answer:
    """The answer once that tier gives it."""

    def found() -> Answer | None:
        answer = instant(program, query, t_ms)
        return answer if tier(answer) == wanted else None

    answer: Answer = poll_until(found, timeout_s, f"{query} at {t_ms} from the {wanted} tier", every_s=0.1)
    return answer


def ticks(program: Program) -> float:
    """How many have ended well since it was started."""
    page = program.get("/metrics").body.decode()
    return float(next(line for line in page.splitlines() if line.startswith("asap_ticks_total")).split()[1])


def await_summary(program: Program, ask: Callable[[], Answer], most_ticks: float) -> Answer:
    """The first answer from summaries; AssertionError where another tier answers a question that was asked after more
    than so many ticks.

    Ticks are counted before each question: how long an answer takes on its way is the machine's matter.
    """

    def found() -> Answer | None:
        before, answer = ticks(program), ask()
        if tier(answer) == "summary":
            return answer
        assert before <= most_ticks, f"answered by {tier(answer)} after {before:g} ticks"
        return None

    answer: Answer = poll_until(found, 60, "an answer from summaries", every_s=0.1)
    return answer


def _fine(answer: Answer, query: str) -> Answer:
    assert answer.status == 200, f"{query}: {answer.status} {answer.body[:500]!r}"
    return answer


def crash(program: Program) -> None:
    """SIGKILL the process that holds everything, then wait for the parent to notice."""
    for child in children(program.process.pid):
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    program.process.wait(STOP_S)


def children(pid: int) -> list[int]:
    """Process ids of a process' children."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in listed.split()]
