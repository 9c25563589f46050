"""Everything the core raises on purpose.

    PrecomputeError
    ├── Rejected            a write that must be sent again later (HTTP: 503 and Retry-After)
    ├── LogDamaged          a sample log that cannot be opened without losing acknowledged samples
    ├── TableReplaced       series ids of a table that was compacted meanwhile: look them up again
    ├── StoreError          the summary store cannot be read or written now (stores/base.py)
    ├── InstallMismatch     the data on disk was written under other fixed constants
    ├── UnfitServer         a server is set up so that it may not hold samples
    ├── NotKept             no aggregation of this id is kept
    ├── KeptByConfig        an aggregation of the config, which only the config can change
    ├── BlobError           bytes that are no summary of a known version
    └── QueryError          a query that has no answer here
        ├── BadExpression   the expression is wrong (Prometheus: bad_data)
        ├── ExecutionError  the expression fails on these data (Prometheus: execution)
        ├── Unsupported     right PromQL that this evaluator does not know; names the feature
        ├── LimitExceeded   a configured size would be passed (Prometheus: execution)
        └── TimedOut        the query's deadline has passed (Prometheus: timeout)

None of them knows HTTP: each package's views hold the table that maps them to status codes.
"""


class PrecomputeError(Exception):
    """Root of the tree; its text is fit for a user."""


class Rejected(PrecomputeError):
    """Nothing was accepted; the same write may succeed after `retry_after_s` seconds."""

    def __init__(self, reason: str, retry_after_s: int = 5) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class LogDamaged(PrecomputeError):
    """The sample log on disk cannot be read as a log."""


class TableReplaced(PrecomputeError):
    """The series ids are of a table that is no longer in use; the caller looks them up again."""


class InstallMismatch(PrecomputeError):
    """A constant fixed at install (shards, hash seed, …) differs from the stored one."""


class UnfitServer(PrecomputeError):
    """A server of the log that would forget samples, or lacks what is needed; the text says the remedy."""


class NotKept(PrecomputeError):
    """No aggregation of this id is kept."""


class KeptByConfig(PrecomputeError):
    """An aggregation that stands in the config; it is changed there."""


class BlobError(PrecomputeError):
    """Bytes that are damaged or of another version; never misread."""


class QueryError(PrecomputeError):
    """A query that has no answer here."""


class BadExpression(QueryError):
    """The expression itself is wrong."""


class ExecutionError(QueryError):
    """The expression is right but fails on the data, as it would in Prometheus."""


class Unsupported(QueryError):
    """The expression is right PromQL; `feature` is what is missing here."""

    def __init__(self, feature: str) -> None:
        super().__init__(f"{feature} is not supported")
        self.feature = feature


class LimitExceeded(QueryError):
    """A configured bound would be passed; the text names it and its option."""


class TimedOut(QueryError):
    """The deadline passed before the answer was ready."""
