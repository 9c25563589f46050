"""What the files in deploy/ give a container, read as the roles read it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from asap_project.config import Config, load
from asap_project.config.layers import NOT_OPTIONS
from asap_project.config.options import options
from asap_project.roles import HTTP_ROLES, roles_of
from tests.running import ROOT

IMAGE_ENV = {"ASAP_DATA_DIR", "ASAP_QUERY_ENGINE_HTTP_HOST", "ASAP_CLUSTER_HEALTH_HOST"}
"""What the Dockerfile sets."""


def loaded(folder: Path, config_yaml: str, env: Mapping[str, str]) -> Config:
    """The config of a role with this file and this environment. A wrong one raises ConfigError."""
    (folder / "config.yaml").write_text(config_yaml)
    given = load([], {name: value for name, value in env.items() if name != "ASAP_CONFIG"}, folder)
    assert given.warnings == ()
    return given.config


def port_of(config: Config, component: str) -> int:
    """Where the role answers for its health."""
    return config.query_engine.http_port if roles_of(component) <= HTTP_ROLES else config.cluster.health_port


def unknown_options(env: Mapping[str, str]) -> set[str]:
    """Names that begin with ASAP_ and are none of ours."""
    known = {option.env for option in options().values()} | NOT_OPTIONS
    return {name for name in env if name.startswith("ASAP_")} - known


def documents(path: Path) -> list[dict[str, Any]]:
    """The documents of a YAML file."""
    return list(yaml.safe_load_all(path.read_text("utf-8")))


def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text("utf-8")
