"""The manifests for Kubernetes: their schemas, and claims of our own."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from asap_project import VERSION
from asap_project.config import Config
from asap_project.config.units import size_bytes
from asap_project.roles import ROLES
from tests.deploy.roles import IMAGE_ENV, dockerfile, documents, loaded, port_of, unknown_options
from tests.running import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
VERSIONS = ("1.31", "1.37")
"""The oldest that is still served somewhere, and the newest that there is a schema for."""

Manifest = dict[str, Any]


def manifests() -> list[Manifest]:
    return [one for path in sorted(FOLDER.glob("*.yaml")) if path.stem != "kustomization" for one in documents(path)]


def of_kind(*kinds: str) -> list[Manifest]:
    return [one for one in manifests() if one["kind"] in kinds]


def name_of(manifest: Manifest) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def workloads() -> list[Manifest]:
    return of_kind("Deployment", "StatefulSet")


def container(workload: Manifest) -> Manifest:
    (only,) = workload["spec"]["template"]["spec"]["containers"]
    found: Manifest = only
    return found


def component(workload: Manifest) -> str:
    found: str = workload["metadata"]["labels"]["app.kubernetes.io/component"]
    return found


def role(name: str) -> Manifest:
    return next(one for one in workloads() if component(one) == name)


def env_of(workload: Manifest) -> dict[str, str]:
    """Values as the container sees them; passwords are their keys."""
    seen: dict[str, str] = {}
    for item in container(workload).get("env", []):
        text = item["value"] if "value" in item else item["valueFrom"]["secretKeyRef"]["key"]
        seen[item["name"]] = re.sub(r"\$\((\w+)\)", lambda m: seen[m[1]], text)
    return seen


def config(folder: Path, name: str = "ingest") -> Config:
    (config_map,) = of_kind("ConfigMap")
    return loaded(folder, config_map["data"]["config.yaml"], env_of(role(name)))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", manifests(), ids=name_of)
def test_the_schema_takes_it(manifest: Manifest, version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**manifest, "sepc": {}}, version, strict=True)


def test_the_kustomization_names_every_file_and_our_version() -> None:
    (document,) = documents(FOLDER / "kustomization.yaml")
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert sorted(document["resources"]) == sorted(files)
    assert [(image["name"], image["newTag"]) for image in document["images"]] == [("asap", VERSION)]


def test_nothing_is_bound_to_a_namespace() -> None:
    assert all("namespace" not in one["metadata"] for one in manifests())


def test_each_role_is_a_deployment() -> None:
    asked = {component(one): container(one)["args"] for one in of_kind("Deployment")}
    assert asked == {name: ["--component", name] for name in ROLES}


@pytest.mark.parametrize("workload", workloads(), ids=name_of)
def test_every_container_has_probes_resources_and_a_pinned_image(workload: Manifest) -> None:
    one = container(workload)
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(one)
    assert set(one["resources"]["requests"]) == {"cpu", "memory"}
    wanted, most = (size_bytes(f"{one['resources'][kind]['memory']}B") for kind in ("requests", "limits"))
    assert wanted <= most
    assert re.fullmatch(r"[a-z]+:\d+\.\d+(\.\d+)?", one["image"])


@pytest.mark.parametrize("workload", workloads(), ids=name_of)
def test_no_container_is_root_or_gets_variables_of_services(workload: Manifest) -> None:
    pod = workload["spec"]["template"]["spec"]
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container(workload)["securityContext"]["allowPrivilegeEscalation"] is False


def test_no_service_could_be_taken_for_an_option() -> None:
    names = [one["metadata"]["name"] for one in of_kind("Service")]
    assert not [name for name in names if name.upper().replace("-", "_").startswith("ASAP")]


@pytest.mark.parametrize("workload", of_kind("Deployment"), ids=name_of)
def test_every_role_is_asked_where_it_answers(workload: Manifest, tmp_path: Path) -> None:
    one, port = container(workload), port_of(config(tmp_path, component(workload)), component(workload))
    assert one["ports"] == [{"name": "http", "containerPort": port}]
    assert workload["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"] == str(port)
    probes = [one[f"{kind}Probe"] for kind in ("startup", "readiness", "liveness")]
    asked = [probe.get("httpGet") or probe["tcpSocket"] for probe in probes]
    assert [place["port"] for place in asked] == ["http"] * 3
    alive = None if component(workload) == "ingest" else "/-/healthy"  # which follows Redis there
    assert [place.get("path") for place in asked] == ["/-/healthy", "/-/ready", alive]
    assert f"EXPOSE {config(tmp_path).query_engine.http_port} {config(tmp_path).cluster.health_port}" in dockerfile()


def test_all_roles_have_the_same_environment_and_every_option_is_one() -> None:
    found = [env_of(one) for one in of_kind("Deployment")]
    assert all(env == found[0] for env in found)
    assert unknown_options(found[0]) == set()
    assert all(f"{name}=" in dockerfile() for name in IMAGE_ENV)
    assert unknown_options(dict.fromkeys(IMAGE_ENV, "")) == set()


def test_the_config_names_services_ports_and_users_that_there_are(tmp_path: Path) -> None:
    made = config(tmp_path)
    ports = {one["metadata"]["name"]: one["spec"]["ports"][0]["port"] for one in of_kind("Service")}
    for url in [*made.redis.log_urls, made.redis.broker_url, made.database.url]:
        host, port = re.findall(r"@([\w.-]+):(\d+)", url)[0]
        assert ports[host.split(".")[-1]] == int(port)
    assert made.database.url.startswith(f"postgresql://{env_of(role('postgres'))['POSTGRES_USER']}:")


def test_every_service_and_budget_selects_pods_that_there_are() -> None:
    pods = [one["spec"]["template"]["metadata"]["labels"] for one in workloads()]
    selected = [one["spec"]["selector"] for one in of_kind("Service")]
    selected += [one["spec"]["selector"]["matchLabels"] for one in of_kind("PodDisruptionBudget")]
    assert all(sum(wanted.items() <= labels.items() for labels in pods) == 1 for wanted in selected)
    assert all(one["spec"]["selector"]["matchLabels"] in pods for one in workloads())


def test_a_role_of_several_pods_has_a_budget() -> None:
    budgets = {one["metadata"]["name"] for one in of_kind("PodDisruptionBudget")}
    assert budgets == {one["metadata"]["name"] for one in of_kind("Deployment") if one["spec"]["replicas"] > 1}


def test_the_replicas_are_those_of_the_config(tmp_path: Path) -> None:
    wanted = config(tmp_path).cluster
    assert role("query-engine")["spec"]["replicas"] == wanted.query_engine.replicas
    assert role("streaming-worker")["spec"]["replicas"] == wanted.streaming_workers.replicas


def test_every_secret_and_config_that_is_named_is_there() -> None:
    kept = {one["metadata"]["name"]: one.get("stringData", one.get("data")) for one in of_kind("Secret", "ConfigMap")}
    for place in named(manifests(), "secretKeyRef"):
        assert place["key"] in kept[place["name"]]
    assert all(place["name"] in kept for place in named(manifests(), "configMap"))


def named(tree: Any, key: str) -> Iterator[Any]:
    """Every value under this key, however deep."""
    if isinstance(tree, dict):
        yield from ([tree[key]] if key in tree else [])
        tree = list(tree.values())
    if isinstance(tree, list):
        for inner in tree:
            yield from named(inner, key)


def test_the_logs_redis_loses_nothing_and_has_room_for_log_and_summaries(tmp_path: Path) -> None:
    made, log = config(tmp_path), role("redis-log")
    said = dict(zip(container(log)["args"][::2], container(log)["args"][1::2], strict=True))
    assert (said["--appendonly"], said["--appendfsync"]) == ("yes", "everysec")
    assert said["--maxmemory-policy"] == "noeviction"
    memory = size_bytes(f"{said['--maxmemory'].removesuffix('gb')}GiB")
    assert memory * len(made.redis.log_urls) >= 1.1 * (made.log.max_bytes + made.redis.max_summary_bytes)
    assert size_bytes(f"{container(log)['resources']['limits']['memory']}B") >= 1.5 * memory
    assert len(made.redis.log_urls) == log["spec"]["replicas"]


def test_a_query_engine_has_room_for_the_head_and_for_queries(tmp_path: Path) -> None:
    limit = container(role("query-engine"))["resources"]["limits"]["memory"]
    assert size_bytes(f"{limit}B") >= 1.5 * config(tmp_path).head.max_bytes
