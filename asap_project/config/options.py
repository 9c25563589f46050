"""The options of the schema, one per leaf, and how each is named in every source."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from asap_project.config.schema import Config


@dataclass(frozen=True)
class Option:
    """One leaf of the schema.

    key: dotted name, as in the file (`query_engine.http_port`).
    default: the default as it would be written in the file; lists and mappings as such.
    """

    key: str
    default: Any
    help: str
    secret: bool
    is_structured: bool
    """Whether its value is or may be a list or a mapping."""
    is_switch: bool

    @property
    def env(self) -> str:
        """Its one name in the environment: `ASAP_QUERY_ENGINE_HTTP_PORT`."""
        return "ASAP_" + self.key.upper().replace(".", "_")

    @property
    def flag(self) -> str:
        """Its flag: `--query-engine.http-port`."""
        return "--" + self.key.replace("_", "-")


@cache
def options() -> dict[str, Option]:
    """Every option by its key, in the schema's order."""
    defaults = Config().model_dump(mode="json")
    return {option.key: option for option in _leaves(Config, defaults, "")}


def value_at(tree: Any, key: str) -> Any:
    """What a dumped config has under an option's key."""
    for part in key.split("."):
        tree = tree[part]
    return tree


def _leaves(model: type[BaseModel], defaults: dict[str, Any], prefix: str) -> Iterator[Option]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _leaves(kind, defaults[name], f"{prefix}{name}.")
        else:
            yield _option(prefix + name, field, defaults[name])


def _option(key: str, field: FieldInfo, default: Any) -> Option:
    extra = field.json_schema_extra
    return Option(
        key=key,
        default=default,
        help=field.description or "",
        secret=isinstance(extra, dict) and bool(extra.get("secret")),
        is_structured=any(get_origin(k) in (tuple, dict) for k in (field.annotation, *get_args(field.annotation))),
        is_switch=field.annotation is bool,
    )


def nearest(word: str, known: list[str]) -> str:
    """`; did you mean …?` with the known word most like it, or nothing when none is."""
    match = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {match[0]}?" if match else ""
