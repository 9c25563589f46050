"""Whether the server can serve by TLS with a certificate and its key, found out before the start.

The server's TLS (rustls) takes X.509 version 3 alone and keys that TLS 1.3 knows, and gives up otherwise.
"""

import ssl
from contextlib import suppress

_MISMATCH = frozenset({"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"})
_SEQUENCE, _VERSION = 0x30, 0xA0


def why_not(cert_file: str, key_file: str) -> str | None:
    """What is wrong with two files that can be read, None where nothing is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert_file, key_file, password=_encrypted)
    except ssl.SSLError as error:
        return _reason(error)
    except ValueError as error:
        return str(error)
    try:
        presented = _presented(context)
    except ssl.SSLError:
        return "has a key of a kind that TLS 1.3 does not use; make one of RSA, P-256, P-384 or Ed25519"
    return None if _is_version_3(presented) else "is of X.509 version 1; make one of version 3, with a subjectAltName"


def _reason(error: ssl.SSLError) -> str:
    if error.reason in _MISMATCH:
        return "security.tls.key_file is not this certificate's key"
    reason = (error.reason or "no certificate, or no key, in them").lower().replace("_", " ")
    return f"and security.tls.key_file should be a certificate and its key, in PEM: {reason}"


def _encrypted() -> str:
    raise ValueError("needs a security.tls.key_file without a passphrase: nobody is there to type it at a start")


def _presented(context: ssl.SSLContext) -> bytes:
    """The certificate, DER, as a client gets it: a handshake in memory. Raises SSLError where there can be none."""
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    asking.minimum_version = ssl.TLSVersion.TLSv1_3
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return client.getpeercert(binary_form=True) or b""


def _is_version_3(certificate: bytes) -> bool:
    """RFC 5280, 4.1: a sequence that begins with a sequence, that begins with the version unless it is 1."""
    inner = _content(certificate, 0)
    return certificate[inner] == _SEQUENCE and certificate[_content(certificate, inner)] == _VERSION


def _content(der: bytes, at: int) -> int:
    """Where the content of the element at `at` begins: past its tag and its length, which may be of several bytes."""
    return at + 2 + (der[at + 1] & 0x7F if der[at + 1] & 0x80 else 0)
