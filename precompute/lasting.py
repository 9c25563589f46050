"""Rounds of threads that nobody would start anew: whatever goes wrong in one, the next one comes."""

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)


def attempt(job: Callable[[], object], what: str) -> None:
    """Do it. Whatever goes wrong is logged as the failure of `what`."""
    try:
        job()
    except Exception:
        logger.exception("%s failed; it is tried again", what)
