"""The one error of the config."""


class ConfigError(Exception):
    """One line that names a key, its value, where it was set, and what to write instead."""
