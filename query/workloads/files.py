"""From a file to a workload, whatever it is that the file holds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import yaml

from query.workloads import controller, grafana, lines, rules
from query.workloads.base import Workload, WorkloadError, Zooms, mapping

_LARGEST = 1 << 28
_YAML = (".yaml", ".yml")


def read(path: Path, zooms: Zooms) -> Workload:
    """The queries of a file: JSON lines, a dashboard, a rule file or ASAPQuery's config.

    Raises WorkloadError for what is none of these, or cannot be read.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise WorkloadError(f"{path} is larger than {_LARGEST} bytes")
        text = path.read_bytes()
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror}") from None
    if path.suffix in _YAML:
        return _of_yaml(text, path.name)
    document = _json(text)
    if isinstance(document, dict) and not {"expr", "query", "params"} & set(document):
        return grafana.read(document, path.name, zooms)
    return lines.read(text, path.name, zooms)


def _json(text: bytes) -> Any:
    """The one value that the text is; None where it is none, such as several lines."""
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def _of_yaml(text: bytes, name: str) -> Workload:
    try:
        documents = [mapping(one, name) for one in yaml.load_all(text, yaml.CSafeLoader) if one is not None]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise WorkloadError(f"{name} is no YAML: {' '.join(str(error).split())[:200]}") from None
    found = [_of_document(document, name) for document in documents]
    return Workload(
        tuple(query for one in found for query in one.queries),
        next((one.quantile for one in found if one.quantile), ""),
        {metric: labels for one in found for metric, labels in one.labels.items()},
        tuple(note for one in found for note in one.notes),
    )


def _of_document(document: Mapping[str, Any], name: str) -> Workload:
    if "query_groups" in document:
        return controller.read(document, name)
    spec = document.get("spec")
    holder = spec if isinstance(spec, dict) and "groups" in spec else document
    if "groups" not in holder:
        raise WorkloadError(f"{name} has neither groups of rules nor query_groups")
    return rules.read(holder, name)
