"""Everything ingest raises on purpose.

    IngestError
    ├── BadBody           bytes that are not what their type says; nothing of the request was kept
    ├── TooLarge          a body above `ingest.max_body`, packed or unpacked
    └── UnsupportedType   a content type or encoding that no decoder here reads

None of them knows HTTP; the table in `ingest/views.py` maps them to status codes. The core's
`Rejected` passes through.
"""


class IngestError(Exception):
    """Root of the tree; its text is fit for a sender's log."""


class BadBody(IngestError):
    """The body is damaged."""


class TooLarge(IngestError):
    """The body is above the limit, which the text names."""


class UnsupportedType(IngestError):
    """The body is of a type or encoding that is not read here; the text says what is."""
