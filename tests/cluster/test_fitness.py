"""A Redis that would forget or lose samples is refused or warned of, with the remedy, as a role starts."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from asap_project.cluster_parts import look_at_logs, shards_of
from asap_project.config import Config
from asap_project.redis_setup import look_at_broker
from precompute.cluster.fitness import Judgement, judge_broker, judge_log
from precompute.cluster.server import Server
from precompute.errors import UnfitServer
from tests.ports import free_port
from tests.running import ROOT
from tests.servers import RedisServer, redis_server

GOOD = {"redis_version": "7.0.15", "maxmemory": "0", "maxmemory_policy": "noeviction", "aof_enabled": "1"}


def test_it_works() -> None:
    assert judge_log(GOOD, 1 << 30) == Judgement()
    assert judge_broker(GOOD) == Judgement()


@pytest.mark.parametrize("version", ["6.2.14", "5.0.0"])
def test_an_old_one_is_refused(version: str) -> None:
    (refusal,) = judge_log({**GOOD, "redis_version": version}, 1).refusals
    assert refusal == f"it is of version {version}: 7.0 is needed"


@pytest.mark.parametrize("version", ["7.0.0", "8.2.1", "10.0", "unstable", ""])
def test_a_newer_one_and_one_that_names_no_number_are_taken(version: str) -> None:
    assert judge_log({**GOOD, "redis_version": version}, 1) == Judgement()


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_one_that_would_forget_is_refused_for_the_log_and_warned_of_for_celery(policy: str) -> None:
    forgetful = {**GOOD, "maxmemory_policy": policy}
    (refusal,) = judge_log(forgetful, 1).refusals
    assert refusal.endswith("set maxmemory-policy noeviction")
    assert judge_broker(forgetful).refusals == ()
    assert policy in judge_broker(forgetful).warnings[0]


def test_without_an_append_only_file_a_restart_loses_samples() -> None:
    (warning,) = judge_log({**GOOD, "aof_enabled": "0"}, 1).warnings
    assert "appendonly yes" in warning


@pytest.mark.parametrize(("most", "warns"), [(0, False), (1, True), (1099, True), (1100, False), (1 << 40, False)])
def test_writes_are_refused_before_the_server_is_full(most: int, warns: bool) -> None:
    warnings = judge_log({**GOOD, "maxmemory": str(most)}, 1000).warnings
    assert bool(warnings) is warns
    assert all("log.max_bytes" in warning and "redis.max_summary_bytes" in warning for warning in warnings)


def test_one_that_says_nothing_is_only_noted() -> None:
    for judgement in (judge_log({}, 1), judge_broker({})):
        assert (judgement.refusals, judgement.warnings, len(judgement.notes)) == ((), (), 1)


def test_one_that_says_less_is_judged_by_what_it_says() -> None:
    assert judge_log({"redis_version": "7.2.4"}, 1) == Judgement()


# -- real servers


def config(*urls: str, **sizes: str) -> Config:
    log, redis = {"max_bytes": sizes.get("log", "1GiB")}, {"max_summary_bytes": sizes.get("summaries", "1GiB")}
    made = {"log": log, "redis": {"log_urls": list(urls), **redis}, "engine": {"minibatch": {"shards": 4}}}
    return Config.model_validate(made)


def look(*urls: str, **sizes: str) -> None:
    made = config(*urls, **sizes)
    shards = shards_of(made)
    try:
        look_at_logs(made, shards)
    finally:
        shards.close()


def test_what_a_real_server_says_is_understood(redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    look(redis.url)
    assert caplog.records == []
    server = Server(redis.url)
    assert {name for name in GOOD if name in server.info()} == set(GOOD)
    server.close()


def test_a_real_server_that_forgets_is_refused_with_its_name() -> None:
    with redis_server("everysec", "--maxmemory-policy", "allkeys-lru") as redis, pytest.raises(UnfitServer) as refused:
        look(redis.url)
    assert str(refused.value).startswith(f"Redis at {redis.url} cannot hold the log: maxmemory-policy allkeys-lru ")


def test_a_small_one_without_a_file_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with redis_server("everysec", "--maxmemory", "10mb", "--appendonly", "no") as redis:
        look(redis.url, log="10MiB", summaries="1MiB")
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert ["appendonly" in warnings[0], "maxmemory 10485760" in warnings[1]] == [True, True]


def test_each_of_several_servers_needs_its_part_only(redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    with redis_server("everysec", "--maxmemory", "10mb") as other:
        look(redis.url, other.url, log="10MiB", summaries="5MiB")
        assert caplog.records == []
        look(other.url, redis.url.replace("/0", "/1"), log="20MiB", summaries="5MiB")
        assert "is less than the" in caplog.text


def test_one_that_lets_nobody_ask_is_used(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with redis_server() as redis:
        redis.cli("acl", "setuser", "default", "-info")
        look(redis.url)
    assert "it does not say how it is set up (INFO)" in caplog.text


def test_one_that_is_away_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    away = f"redis://127.0.0.1:{free_port()}/0"
    look(away)
    look_at_broker(away)
    assert caplog.text.count("how it is set up is not known") == 2


def test_a_role_does_not_start_on_one_that_forgets(tmp_path: Path) -> None:
    with redis_server("everysec", "--maxmemory-policy", "allkeys-lru") as redis:
        options = {
            "mode": "cluster",
            "component": "ingest",
            "redis.log-urls": f'["{redis.url}"]',
            "redis.broker-url": "redis://127.0.0.1:1/0",
            "database.url": "postgresql://asap@127.0.0.1:1/asap",
            "query-engine.http-port": str(free_port()),
        }
        words = [word for name, text in options.items() for word in (f"--{name}", text)]
        command = [sys.executable, str(ROOT / "manage.py"), "runasap", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert f"asap: Redis at {redis.url} cannot hold the log: maxmemory-policy allkeys-lru" in done.stderr
    assert done.returncode == 2
