"""One schema for both deployments: a YAML file, then the environment, then dotted flags; the later wins."""

from asap_project.config.errors import ConfigError
from asap_project.config.items import Aggregation, Scrape
from asap_project.config.load import Loaded, load
from asap_project.config.schema import Config

__all__ = ["Aggregation", "Config", "ConfigError", "Loaded", "Scrape", "load"]
