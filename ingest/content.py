"""Which bodies a remote-write endpoint reads, by their Content-Type and Content-Encoding.

A receiver of version 1.0 answers 415 to 2.0, and the sender falls back
(prometheus.io/docs/specs/prw/remote_write_spec_2_0, "Content-Type", "Backward compatibility").
"""

from ingest.errors import UnsupportedType

MEDIA_TYPE = "application/x-protobuf"
MESSAGE = "prometheus.WriteRequest"


def encoding_of(content_type: str, content_encoding: str) -> str:
    """The encoding, `snappy` or `zstd`, of a body that holds a 1.0 request; an absent header means 1.0 and snappy.

    Raises UnsupportedType.
    """
    media_type, *parameters = (part.strip() for part in (content_type or MEDIA_TYPE).split(";"))
    if media_type.lower() != MEDIA_TYPE:
        raise UnsupportedType(f"content type {media_type!r} is not supported; send {MEDIA_TYPE}")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "proto" and value.strip().strip('"') != MESSAGE:
            raise UnsupportedType(f"{value.strip()} is not supported; send remote write 1.0 ({MESSAGE})")
    encoding = content_encoding.strip().lower() or "snappy"
    if encoding not in ("snappy", "zstd"):
        raise UnsupportedType(f"content encoding {encoding!r} is not supported; use snappy or zstd")
    return encoding
