"""What must hold between options, and parts that are not built. Data, not exceptions."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from asap_project.config.certificate import why_not
from asap_project.config.items import Aggregation
from asap_project.config.schema import Config
from asap_project.config.units import duration_ms, duration_text
from precompute.aggregations import LONGEST_RETENTION_MS

EAGER = "CELERY_TASK_ALWAYS_EAGER"
"""Celery's own switch; a single node is eager, a cluster is not."""

LONGEST_HEAD_MS = duration_ms("20d")
"""The head keeps times as 32-bit milliseconds, which end after 24.8 days."""

_TRUE = frozenset({"1", "true", "yes", "on", "t", "y"})
_FALSE = frozenset({"0", "false", "no", "off", "f", "n", ""})


class Problem(NamedTuple):
    """The key to change, and what is wrong with what to write instead."""

    key: str
    text: str


def problems(config: Config, environ: Mapping[str, str]) -> Iterator[Problem]:
    """Everything that is wrong although each value alone is right, worst first."""
    yield from _eager(config, environ.get(EAGER))
    yield from _not_built(config)
    yield from _times(config)
    yield from _sizes(config)
    yield from _aggregations(config)
    yield from _upstream(config)
    yield from _query_log(config)
    yield from _database(config)
    yield from _redis(config)
    yield from _cluster(config)
    yield from _names(config)
    yield from _tls(config)


def _eager(config: Config, eager: str | None) -> Iterator[Problem]:
    if eager is None:
        return
    if eager.lower() not in _TRUE | _FALSE:
        yield Problem("mode", f"{EAGER}={eager!r} in the environment is neither true nor false; unset it")
    elif (eager.lower() in _TRUE) != (config.mode == "single-node"):
        yield Problem("mode", f"contradicts {EAGER}={eager!r} in the environment; unset that or change mode")


def _not_built(config: Config) -> Iterator[Problem]:
    if config.engine.type != "minibatch":
        yield Problem("engine.type", "this engine is not built yet; set engine.type: minibatch")


def _times(config: Config) -> Iterator[Problem]:
    batch, head = config.engine.minibatch, config.head
    if batch.allowed_lateness > batch.acceptance_age:
        yield Problem("engine.minibatch.allowed_lateness", "should not be longer than engine.minibatch.acceptance_age")
    if head.retention > LONGEST_HEAD_MS:
        yield Problem("head.retention", f"should be at most {duration_text(LONGEST_HEAD_MS)}")
    if batch.acceptance_age + batch.max_reach > LONGEST_HEAD_MS:
        limit = duration_text(LONGEST_HEAD_MS)
        yield Problem("engine.minibatch.acceptance_age", f"with engine.minibatch.max_reach should be at most {limit}")


def _sizes(config: Config) -> Iterator[Problem]:
    if config.log.max_backlog > config.log.max_bytes:
        yield Problem("log.max_backlog", "should not be larger than log.max_bytes")


def _aggregations(config: Config) -> Iterator[Problem]:
    window_ms = config.engine.minibatch.window_size
    for place, kept in enumerate(config.aggregations):
        yield from (Problem("aggregations", f"[{place}].{text}") for text in times_of(kept, window_ms))


def times_of(kept: Aggregation, window_ms: int) -> Iterator[str]:
    """What is wrong with the times of an aggregation: the key, and what it should be."""
    width_ms = window_ms if kept.width is None else kept.width
    if width_ms % window_ms:
        yield f"width should be a multiple of engine.minibatch.window_size, {duration_text(window_ms)}"
    if kept.retention < width_ms:
        yield "retention should not be shorter than its width"
    if kept.retention > LONGEST_RETENTION_MS:
        yield f"retention should be at most {duration_text(LONGEST_RETENTION_MS)}"


def _upstream(config: Config) -> Iterator[Problem]:
    engine = config.query_engine
    if engine.prometheus_server and not _is_url(engine.prometheus_server, {"http", "https"}):
        yield Problem("query_engine.prometheus_server", "should be a URL such as http://prometheus:9090")
    if engine.prometheus_ca_file and not Path(engine.prometheus_ca_file).is_file():
        yield Problem("query_engine.prometheus_ca_file", "is not there; name a file of PEM certificates")
    if engine.prometheus_ca_file and not engine.prometheus_server.startswith("https://"):
        yield Problem("query_engine.prometheus_ca_file", "needs an https:// query_engine.prometheus_server")


def _query_log(config: Config) -> Iterator[Problem]:
    path = Path(config.query_engine.query_log_file)
    if config.query_engine.query_log_file in ("", "-"):
        return
    if path.is_dir() or not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        yield Problem("query_engine.query_log_file", "cannot be written; name a file in a folder that is there")


def _database(config: Config) -> Iterator[Problem]:
    url = config.database.url
    if url and not (_is_url(url, {"postgresql", "postgres"}) and _is_known_to_libpq(url)):
        yield Problem("database.url", "should be postgresql://user:password@host/name, or empty for SQLite in data_dir")


def _is_known_to_libpq(url: str) -> bool:
    import psycopg  # loads libpq, which only PostgreSQL's users need

    try:
        return bool(psycopg.conninfo.conninfo_to_dict(url))
    except psycopg.ProgrammingError:
        return False


def _redis(config: Config) -> Iterator[Problem]:
    logs, broker = config.redis.log_urls, config.redis.broker_url
    for key, urls in (("redis.log_urls", logs), ("redis.broker_url", (broker,) if broker else ())):
        if not all(_is_url(url, {"redis", "rediss"}) for url in urls):
            yield Problem(key, "should be redis://host:6379/0, or rediss:// by TLS")
    if len(set(logs)) != len(logs):
        yield Problem("redis.log_urls", "names one server twice; name each once")
    if broker in logs:
        yield Problem("redis.broker_url", "is one of redis.log_urls; Celery needs another server, which may lose data")


def _cluster(config: Config) -> Iterator[Problem]:
    """What only a cluster needs."""
    if config.mode != "cluster":
        return
    if not config.redis.log_urls:
        yield Problem("redis.log_urls", "a cluster keeps its log in Redis; name a server, such as redis://log:6379/0")
    if not config.redis.broker_url:
        yield Problem("redis.broker_url", "a cluster's ticks go over Redis; name a server, such as redis://broker:6379")
    if not config.database.url:
        text = "a cluster keeps summaries in PostgreSQL; set it to postgresql://user:password@host/name"
        yield Problem("database.url", text)
    if config.cluster.health_port == config.query_engine.http_port:
        yield Problem("cluster.health_port", "is query_engine.http_port; choose another, or 0 for none")


def _names(config: Config) -> Iterator[Problem]:
    """A name is one client's: limits and logs tell clients apart by it."""
    users = [("security.users", place, user.name) for place, user in enumerate(config.security.users)]
    tokens = [("security.tokens", place, token.name) for place, token in enumerate(config.security.tokens)]
    taken = set[str]()
    for key, place, name in users + tokens:
        if name in taken:
            yield Problem(key, f"[{place}].name {name} is taken; users and tokens share their names")
        taken.add(name)


def _tls(config: Config) -> Iterator[Problem]:
    files = config.security.tls
    for key, text in (("security.tls.cert_file", files.cert_file), ("security.tls.key_file", files.key_file)):
        if not text:
            if files.cert_file or files.key_file:
                yield Problem(key, "is needed too; a certificate and its key belong together")
            continue
        try:
            Path(text).read_bytes()
        except OSError as error:
            yield Problem(key, f"cannot be read: {error.strerror}")
            return
    why = why_not(files.cert_file, files.key_file) if files.cert_file and files.key_file else None
    if why:
        yield Problem("security.tls.cert_file", why)


def _is_url(text: str, schemes: set[str]) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
