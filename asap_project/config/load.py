"""From file, environment and flags to a Config and the provenance of every value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from asap_project.config.clients import Token, User
from asap_project.config.errors import ConfigError
from asap_project.config.items import Aggregation, Scrape
from asap_project.config.layers import Given, Layer, from_environment, from_file, from_flags, unknown_in_environment
from asap_project.config.options import Option, nearest, options, value_at
from asap_project.config.printing import shown
from asap_project.config.relations import problems
from asap_project.config.schema import Config

DEFAULT_FILE = "config.yaml"

ITEMS: dict[str, type[BaseModel]] = {
    "scrape": Scrape, "aggregations": Aggregation, "security.users": User, "security.tokens": Token,
}  # fmt: skip
"""The options whose value is a list of mappings, and what each mapping is."""


@dataclass(frozen=True)
class Setting:
    """An option, its value as it would be written in the file, and where that was set."""

    option: Option
    value: Any
    source: str


@dataclass(frozen=True)
class Loaded:
    """A config that holds, where each value comes from, and what its reader should be warned of."""

    config: Config
    settings: tuple[Setting, ...]
    warnings: tuple[str, ...]


def load(argv: Sequence[str], environ: Mapping[str, str], folder: Path) -> Loaded:
    """The config of a process with these arguments and this environment, started in `folder`.

    Raises ConfigError, one line, for the first thing that is wrong.
    """
    layers = (_file_layer(argv, environ, folder), from_environment(environ), from_flags(argv))
    given = {key: value for layer in layers for key, value in layer.items()}
    config = _validated(layers, given)
    for problem in problems(config, environ):
        raise ConfigError(_line(problem.key, given, problem.text))
    return Loaded(config, _settings(config, given), tuple(unknown_in_environment(environ)))


def _file_layer(argv: Sequence[str], environ: Mapping[str, str], folder: Path) -> Layer:
    named = _config_flag(argv) or environ.get("ASAP_CONFIG")
    if named:
        return from_file(folder, named)
    return from_file(folder, DEFAULT_FILE) if (folder / DEFAULT_FILE).is_file() else {}


def _config_flag(argv: Sequence[str]) -> str | None:
    """The value of the last `--config FILE` or `--config=FILE`."""
    name = None
    for at, word in enumerate(argv):
        if word.startswith("--config="):
            name = word.removeprefix("--config=")
        elif word == "--config":
            name = argv[at + 1] if at + 1 < len(argv) else ""
    if name == "":
        raise ConfigError("--config: the name of a file should follow")
    return name


class _LayerSource(PydanticBaseSettingsSource):
    """A layer in the shape that pydantic-settings merges."""

    def __init__(self, settings_cls: type[BaseSettings], layer: Layer) -> None:
        super().__init__(settings_cls)
        self._layer = layer

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self().get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for key, given in self._layer.items():
            *path, name = key.split(".")
            node = tree
            for part in path:
                node = node.setdefault(part, {})
            node[name] = given.value
        return tree


def _validated(layers: Sequence[Layer], given: Layer) -> Config:
    class Layered(Config):
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *args: Any, **kwargs: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return tuple(_LayerSource(settings_cls, layer) for layer in reversed(layers))

    try:
        return Config(**dict(Layered()))
    except ValidationError as error:
        raise ConfigError(_validation_line(error, given)) from error


def _validation_line(error: ValidationError, given: Layer) -> str:
    first = error.errors(include_url=False)[0]
    # of a value that may be of several types, pydantic names the type beside the place
    path = [str(part) for part in first["loc"] if not str(part).startswith(("dict[", "literal["))]
    key = next(key for at in range(len(path), 0, -1) if (key := ".".join(path[:at])) in options())
    return _line(key, given, f"{place_of(path[key.count('.') + 1 :])} {remedy(first, key)}".lstrip())


def place_of(path: Sequence[str]) -> str:
    """A place inside a value, as `[0].by[1]`."""
    return "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in path).lstrip(".")


def remedy(first: ErrorDetails, key: str) -> str:
    """What pydantic says of (an item of) the option `key`, in the words of the file."""
    if first["type"] == "extra_forbidden":
        return f"is no key here{nearest(str(first['loc'][-1]), list(ITEMS[key].model_fields))}"
    if first["type"] == "missing":
        return "is missing"
    text = first["msg"].removeprefix("Value error, ").replace("Input should", "should")
    return text.replace("a valid tuple", "a list").replace("Tuple", "it").replace("a valid dictionary", "a mapping")


def _line(key: str, given: Layer, text: str) -> str:
    option = options()[key]
    source = given.get(key, Given(option.default, "default"))
    value = shown(source.value)
    value = value if len(value) <= 120 else f"{value[:117]}..."
    return f"{key} = {value} ({source.source}): {text}; default: {shown(option.default)}"


def _settings(config: Config, given: Layer) -> tuple[Setting, ...]:
    tree = config.model_dump(mode="json", exclude_none=True)
    return tuple(
        Setting(option, value_at(tree, option.key), given[option.key].source if option.key in given else "default")
        for option in options().values()
    )
