"""What tests of query engines share."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from precompute.clock import SystemClock
from precompute.models import SummaryPack
from tests.cluster.following import Cluster
from tests.precompute.made_node import aggregation
from tests.precompute.stores import databases
from tests.servers import RedisServer

KEPT = (
    aggregation("m", ["g"]),
    aggregation("rate(c_total[1m])", ["g"], accumulators=("sum", "max")),
    aggregation("m / on (g, i) group_left () n", ["g"], accumulators=("sum", "count")),
)


@pytest.fixture(scope="module")
def using(django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The alias of a database of packs."""
    folder = tmp_path_factory.mktemp("packs")
    with django_db_blocker.unblock(), databases.migrated("packs", databases.sqlite(folder)) as alias:
        yield alias


@pytest.fixture
def made_cluster(using: str, tmp_path: Path) -> Callable[..., Cluster]:
    """Call it with the URLs of Redis servers."""
    SummaryPack.objects.using(using).all().delete()
    return lambda *urls: Cluster(urls, tmp_path, KEPT, SystemClock().now_ms())


@pytest.fixture
def cluster(made_cluster: Callable[..., Cluster], redis: RedisServer) -> Cluster:
    return made_cluster(redis.url)
