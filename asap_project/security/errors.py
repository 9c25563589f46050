"""Why a request is refused before anything looks at it.

    Refused
    ├── Unauthorized   no credentials, or wrong ones
    ├── Forbidden      the client may not do this
    └── OverLimit      too many requests of a client, or too many wrong logins from an address

`asap_project/middleware.py` has the table that gives them their HTTP status.
"""


class Refused(Exception):
    """Root of the tree; its text is fit for a client."""


class Unauthorized(Refused):
    """Nobody that the config names."""


class Forbidden(Refused):
    """One whom the config names, without this permission."""


class OverLimit(Refused):
    """The same request may succeed after `retry_after_s` seconds."""

    def __init__(self, reason: str, retry_after_s: int) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s
