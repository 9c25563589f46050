"""A whole config as it may be shown to whoever can read from the API: without credentials."""

import re
from typing import Any

import yaml

from asap_project.config.options import options, value_at
from asap_project.config.printing import mask, shown
from asap_project.config.schema import Config

_SECRET = re.compile(r"(?i)password|token|secret")


def as_yaml(config: Config) -> str:
    """As a file that says the same, but for credentials."""
    return yaml.safe_dump(_masked(config), sort_keys=False, allow_unicode=True)


def as_flags(config: Config) -> dict[str, str]:
    """Every option's value by the name of its flag, without the dashes before it."""
    tree = _masked(config)
    return {option.flag.removeprefix("--"): shown(value_at(tree, key)) for key, option in options().items()}


def _masked(config: Config) -> Any:
    return _without_secrets("", config.model_dump(mode="json", exclude_none=True))


def _without_secrets(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_secrets(name, inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_secrets(key, inner) for inner in value]
    if not isinstance(value, str):
        return value
    return "***" if value and _SECRET.search(key) else mask(value)
