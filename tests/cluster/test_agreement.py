"""No role starts with another config than the install was made with."""

import subprocess
import sys
from pathlib import Path

import pytest

from asap_project.cluster_parts import agree_on, shards_of
from asap_project.config import Config
from tests.ports import free_port
from tests.running import ROOT
from tests.servers import RedisServer

DATABASE = "postgresql://asap@127.0.0.1:1/asap"


@pytest.mark.parametrize("component", ["ingest", "query-engine", "streaming-worker"])
def test_a_role_that_accepts_samples_for_another_time_is_refused(
    redis: RedisServer, tmp_path: Path, component: str
) -> None:
    made = Config.model_validate({"mode": "cluster", "redis": {"log_urls": [redis.url]}})
    shards = shards_of(made)
    agree_on(made, shards)
    shards.close()
    options = {
        "mode": "cluster",
        "component": component,
        "redis.log-urls": f'["{redis.url}"]',
        "redis.broker-url": "redis://127.0.0.1:1/0",
        "database.url": DATABASE,
        "engine.minibatch.acceptance-age": "2h",
        "query-engine.http-port": str(free_port()),
        "cluster.health-port": "0",
    }
    words = [word for name, text in options.items() for word in (f"--{name}", text)]
    command = [sys.executable, str(ROOT / "manage.py"), "runasap", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
    assert "engine.minibatch.acceptance_age is 7200000, but this install was made with 3600000" in done.stderr
    assert done.returncode == 2
