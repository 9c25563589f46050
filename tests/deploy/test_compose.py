"""The Compose files: their schema, and claims of our own."""

import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from check_jsonschema.builtin_schemas import get_builtin_schema

from asap_project import VERSION
from asap_project.config import Config
from asap_project.config.units import size_bytes
from asap_project.roles import ROLES
from tests.deploy.roles import documents, loaded, port_of, unknown_options
from tests.deploy.shown import ALERTS, CLUSTER_ALERTS, ask_promtool
from tests.running import ROOT

SINGLE, CLUSTER = ROOT / "docker-compose.yml", ROOT / "docker-compose.cluster.yml"


def services(path: Path = CLUSTER) -> dict[str, Any]:
    (document,) = documents(path)
    found: dict[str, Any] = document["services"]
    return found


def ours() -> dict[str, Any]:
    """The services of our own image."""
    return {name: service for name, service in services().items() if service["image"].startswith("asap:")}


def config(folder: Path) -> Config:
    return loaded(folder, (ROOT / "deploy" / "cluster" / "config.yaml").read_text(), {})


@pytest.mark.parametrize("path", [SINGLE, CLUSTER])
def test_the_schema_of_compose_takes_it(path: Path) -> None:
    schema = get_builtin_schema("vendor.compose-spec")
    (document,) = documents(path)
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "servces": {}}, schema)


def test_each_role_is_a_service() -> None:
    assert [service["command"] for service in ours().values()] == [
        ["--component", role] for role in ("ingest", "query-engine", "streaming-worker", "scheduler")
    ]
    assert set(ours()) == set(ROLES)


@pytest.mark.parametrize("name", services())
def test_every_container_has_a_health_check_and_a_bound_of_memory(name: str) -> None:
    service = services()[name]
    assert service["healthcheck"]["test"][0] == "CMD"
    assert size_bytes(in_config(service["deploy"]["resources"]["limits"]["memory"])) >= size_bytes("128MiB")


@pytest.mark.parametrize("path", [SINGLE, CLUSTER])
def test_every_image_is_pinned(path: Path) -> None:
    for name, service in services(path).items():
        assert re.search(r":v?\d+\.\d+", service["image"]) if "image" in service else service["build"] == ".", name


@pytest.mark.parametrize("path", [SINGLE, CLUSTER])
def test_only_this_machine_reaches_its_ports(path: Path) -> None:
    ports = [port for service in services(path).values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("name", ours())
def test_a_role_has_our_version_the_config_and_its_own_port(tmp_path: Path, name: str) -> None:
    service = ours()[name]
    assert service["image"] == f"asap:{VERSION}"
    assert service["environment"] == {"ASAP_CONFIG": "/etc/asap/config.yaml"}
    assert service["volumes"] == ["./deploy/cluster/config.yaml:/etc/asap/config.yaml:ro"]
    assert service["healthcheck"]["test"] == ["CMD", "python", "healthcheck.py", str(port_of(config(tmp_path), name))]
    assert {port.rpartition(":")[2] for port in service.get("ports", [])} <= {str(port_of(config(tmp_path), name))}


@pytest.mark.parametrize("path", [SINGLE, CLUSTER])
def test_every_option_in_an_environment_is_one(path: Path) -> None:
    assert all(unknown_options(service.get("environment", {})) == set() for service in services(path).values())


def test_the_replicas_are_those_of_the_config(tmp_path: Path) -> None:
    wanted = config(tmp_path).cluster
    replicas = {name: service["deploy"].get("replicas", 1) for name, service in ours().items()}
    assert replicas["query-engine"] == wanted.query_engine.replicas
    assert replicas["streaming-worker"] == wanted.streaming_workers.replicas


def test_the_config_names_the_services_that_there_are(tmp_path: Path) -> None:
    made, names = config(tmp_path), set(services())
    urls = [*made.redis.log_urls, made.redis.broker_url, made.database.url, made.query_engine.prometheus_server]
    assert {re.sub(r".*(//|@)([\w-]+):\d+.*", r"\2", url) for url in urls} <= names
    waits = [set(service["depends_on"]) for service in ours().values()]
    assert waits == [{"redis-log", "redis-broker", "postgres"}] * len(waits)


def test_the_logs_redis_loses_nothing_and_has_room_for_log_and_summaries(tmp_path: Path) -> None:
    made, redis = config(tmp_path), services()["redis-log"]
    said = redis["command"].split()
    assert "--appendonly yes --appendfsync everysec" in redis["command"]
    assert said[said.index("--maxmemory-policy") + 1] == "noeviction"
    memory = size_bytes(in_config(said[said.index("--maxmemory") + 1]))
    assert memory >= 1.1 * (made.log.max_bytes + made.redis.max_summary_bytes)
    assert size_bytes(in_config(redis["deploy"]["resources"]["limits"]["memory"])) >= 1.5 * memory


def test_a_query_engine_has_room_for_the_head_and_for_queries(tmp_path: Path) -> None:
    limit = ours()["query-engine"]["deploy"]["resources"]["limits"]["memory"]
    assert size_bytes(in_config(limit)) >= 1.5 * config(tmp_path).head.max_bytes


def in_config(size: str) -> str:
    """A size of Compose or Redis in the config's notation; both count in powers of two."""
    text = size.lower().removesuffix("b")
    return f"{text[:-1]}{text[-1].upper()}iB"


def test_prometheus_writes_to_ingest_and_scrapes_every_role(tmp_path: Path) -> None:
    path = ROOT / "deploy" / "cluster" / "prometheus.yml"
    (document,) = documents(path)
    made = config(tmp_path)
    assert document["remote_write"] == [{"url": f"http://ingest:{made.query_engine.http_port}/api/v1/write"}]
    (ours_job,) = (job for job in document["scrape_configs"] if job["job_name"] == "asap")
    found = {name: one["port"] for one in ours_job["dns_sd_configs"] for name in one["names"]}
    assert found == {role: port_of(made, role) for role in ROLES}
    shutil.copy(path, tmp_path / "prometheus.yml")
    for alerts in (ALERTS, CLUSTER_ALERTS):
        shutil.copy(alerts, tmp_path)
    ask_promtool("check", "config", str(tmp_path / "prometheus.yml"))


def test_prometheus_is_given_the_rules_that_it_is_to_load() -> None:
    (document,) = documents(ROOT / "deploy" / "cluster" / "prometheus.yml")
    given = {volume.split(":")[0].rpartition("/")[2] for volume in services()["prometheus"]["volumes"]}
    assert set(document["rule_files"]) == {ALERTS.name, CLUSTER_ALERTS.name} <= given


def test_grafana_finds_asap_under_the_same_name_in_both() -> None:
    provisioned = documents(ROOT / "deploy" / "grafana" / "provisioning" / "datasources" / "asap.yml")[0]
    hosts = {re.sub(r"http://([\w-]+):\d+", r"\1", source["url"]) for source in provisioned["datasources"]}
    aliases = services()["query-engine"]["networks"]["default"]["aliases"]
    assert hosts <= {*services(SINGLE)}
    assert hosts <= {*services(CLUSTER), *aliases}
