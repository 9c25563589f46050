"""What of the libraries' logging is kept."""

import logging


class Unforeseen(logging.Filter):
    """Only answers that come of an exception: one of 400 or 503 is no news, and is counted in /metrics."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.exc_info is not None
