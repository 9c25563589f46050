"""What is served beside the API: health, readiness, our own metrics, and a page that says what this is."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from query.api.endpoint import parts_of
from query.apps import QueryParts

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>ASAP</title>
<style>body{font:16px/1.5 sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem}code{background:#eee}</style>
<h1>ASAP</h1>
<p>ASAP takes in samples by Prometheus' remote write, summarises them as they arrive, and answers PromQL out of
the summaries. This is its HTTP API; it is Prometheus' own.</p>
<ul>
<li>Send: <code>remote_write: [{url: "http://this-host/api/v1/write"}]</code> in prometheus.yml</li>
<li>Ask: <a href="/api/v1/query?query=up"><code>/api/v1/query?query=up</code></a>; the header
<code>X-ASAP-Tier</code> says who answered, <code>X-ASAP-Bound</code> how exactly</li>
<li>Look around: <a href="/api/v1/labels">labels</a>,
<a href="/api/v1/label/__name__/values">metric names</a>, <a href="/api/v1/metadata">metadata</a></li>
<li>Ask why: <a href="/api/v1/explain?query=up"><code>/api/v1/explain?query=up</code></a></li>
<li>What is kept: <a href="/api/v1/aggregations">aggregations</a>, and why: <a href="/api/v1/plan">the plan</a></li>
<li>Grafana: add a data source of type Prometheus with this address</li>
<li>How it does: <a href="/-/healthy">healthy</a>, <a href="/-/ready">ready</a>, <a href="/metrics">metrics</a></li>
</ul>
</html>
"""


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """/"""
    return HttpResponse(PAGE)


@require_safe
def healthy(request: HttpRequest) -> HttpResponse:
    """/-/healthy"""
    return _state("ASAP is healthy.", lambda parts: parts.healthy())


@require_safe
def ready(request: HttpRequest) -> HttpResponse:
    """/-/ready"""
    return _state("ASAP is ready.", lambda parts: parts.ready())


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """/metrics"""
    parts = parts_of()
    if parts is None:
        return _plain("starting", 503)
    return HttpResponse(generate_latest(parts.registry), content_type=CONTENT_TYPE_LATEST)


def _state(fine: str, why_not: Callable[[QueryParts], str | None]) -> HttpResponse:
    parts = parts_of()
    reason = "starting" if parts is None else why_not(parts)
    return _plain(reason, 503) if reason else _plain(fine, 200)


def _plain(text: str, status: int) -> HttpResponse:
    return HttpResponse(text + "\n", status=status, content_type="text/plain; charset=utf-8")
