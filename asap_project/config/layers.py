"""What each source sets, as flat layers: key -> value and where it was set."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from asap_project.config.errors import ConfigError
from asap_project.config.options import Option, nearest, options
from asap_project.config.printing import shown

NOT_OPTIONS = frozenset({"ASAP_CONFIG"})
"""Names in the environment that begin with ASAP_, are read, and are no option."""


@dataclass(frozen=True)
class Given:
    """A value as it was set, and its source: `file config.yaml`, `env ASAP_…`, `flag --…`."""

    value: Any
    source: str


Layer = Mapping[str, Given]


def from_file(folder: Path, name: str) -> Layer:
    """The options that a YAML file sets, `name` as seen from `folder`; a key without a value is not set."""
    return {key: Given(value, f"file {name}") for key, value in _flat(_document(folder / name, name), "", name)}


def from_environment(environ: Mapping[str, str]) -> Layer:
    """The options set by their one name in the environment."""
    return {
        option.key: Given(_parsed(option, environ[option.env], f"env {option.env}"), f"env {option.env}")
        for option in options().values()
        if option.env in environ
    }


def unknown_in_environment(environ: Mapping[str, str]) -> list[str]:
    """A warning for each ASAP_… that is no option; Kubernetes sets some of its own."""
    known = [option.env for option in options().values()]
    strange = sorted(name for name in environ if name.startswith("ASAP_") and name not in {*known, *NOT_OPTIONS})
    return [f"{name} in the environment is no option and is not read{nearest(name, known)}" for name in strange]


def from_flags(argv: Sequence[str]) -> Layer:
    """The options set by flags, `--a.b value` or `--a.b=value`; a switch may stand alone. Others are left alone."""
    by_flag = {option.flag: option for option in options().values()}
    given: dict[str, Given] = {}
    rest = list(argv)
    while rest:
        flag, joined, value = rest.pop(0).partition("=")
        option = by_flag.get(normal_flag(flag))
        if option is not None:
            text = value if joined else _next_value(option, rest)
            given[option.key] = Given(_parsed(option, text, f"flag {option.flag}"), f"flag {option.flag}")
    return given


def normal_flag(flag: str) -> str:
    """The flag as it is documented: `_` may be written for `-`."""
    return flag.replace("_", "-")


def _next_value(option: Option, rest: list[str]) -> str:
    if rest and not rest[0].startswith("--"):
        return rest.pop(0)
    if option.is_switch:
        return "true"
    raise ConfigError(f"{option.flag}: a value should follow, such as {option.flag} {option.default or '…'}")


def _parsed(option: Option, text: str, source: str) -> Any:
    """Lists and mappings are written as JSON or YAML outside the file, all else as it is."""
    if not option.is_structured:
        return text
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        where = "" if option.secret else f": {_one_line(error)}"  # which quotes the text
        what = f"{option.key} ({source}): should be a list or a mapping in JSON or YAML"
        raise ConfigError(what + where) from error


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses to read the second of two equal keys over the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and names.count(key.value) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value} is set twice", key.start_mark)
        return super().construct_mapping(node, deep)


def _document(path: Path, name: str) -> Mapping[Any, Any]:
    try:
        document = yaml.load(path.read_text("utf-8"), _Loader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{name}: is no YAML: {_one_line(error)}") from error
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}; name another file with --config") from error
    if document is not None and not isinstance(document, dict):
        raise ConfigError(f"{name}: should be a mapping of sections, such as `query_engine: {{http_port: 8088}}`")
    return document or {}


def _flat(node: Mapping[Any, Any], prefix: str, file: str) -> Iterator[tuple[str, Any]]:
    for name, value in node.items():
        key = f"{prefix}{name}"
        if "." in str(name) or (key not in options() and not _is_section(key)):
            raise ConfigError(f"{key} (file {file}): is no option{nearest(key, [*options(), *_sections()])}")
        if value is None:
            continue
        if key in options():
            yield key, value
        elif isinstance(value, dict):
            yield from _flat(value, f"{key}.", file)
        else:
            raise ConfigError(f"{key} = {shown(value)} (file {file}): is a section; set one of {_inside(key)}")


def _sections() -> set[str]:
    return {key[:at] for key in options() for at, sign in enumerate(key) if sign == "."}


def _is_section(key: str) -> bool:
    return key in _sections()


def _inside(section: str) -> str:
    return ", ".join(key for key in options() if key.startswith(f"{section}."))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
