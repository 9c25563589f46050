"""The real settings without the apps that the stand-in takes the place of."""

from asap_project.settings import *  # noqa: F403

INSTALLED_APPS = ["asap_project"]
