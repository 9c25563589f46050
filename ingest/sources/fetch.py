"""Fetching one page over HTTP, bounded in time and size."""

import http.client
import ssl
from dataclasses import dataclass

from precompute.clock import Clock

_CHUNK = 1 << 16
_HEADERS = {"Accept": "text/plain;version=0.0.4;q=1,*/*;q=0.1", "User-Agent": "ASAP"}


class TargetDown(Exception):
    """The target gave no page; the text says why."""


@dataclass(frozen=True)
class Address:
    """Where a page is; `target` is host:port."""

    scheme: str
    target: str
    path: str


def fetch_text(address: Address, timeout_s: float, max_bytes: int, clock: Clock) -> str:
    """The page as text, whole. Each step of the exchange, and the page's arrival, may take `timeout_s`.

    Raises TargetDown.
    """
    deadline_s = clock.monotonic_s() + timeout_s
    try:
        connection = _connection(address, timeout_s)
        try:
            return _read(connection, address.path, deadline_s, max_bytes, clock)
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, UnicodeError, ValueError) as error:
        raise TargetDown(f"{address.target}: {error or type(error).__name__}") from error


def _connection(address: Address, timeout_s: float) -> http.client.HTTPConnection:
    if address.scheme == "https":
        return http.client.HTTPSConnection(address.target, timeout=timeout_s, context=ssl.create_default_context())
    return http.client.HTTPConnection(address.target, timeout=timeout_s)


def _read(connection: http.client.HTTPConnection, path: str, deadline_s: float, max_bytes: int, clock: Clock) -> str:
    connection.request("GET", path, headers=_HEADERS)
    response = connection.getresponse()
    if response.status != http.client.OK:
        raise http.client.HTTPException(f"status {response.status}")
    page = bytearray()
    while chunk := response.read1(_CHUNK):
        page += chunk
        if len(page) > max_bytes:
            raise http.client.HTTPException(f"the page is above {max_bytes} bytes")
        if clock.monotonic_s() > deadline_s:
            raise TimeoutError("the page came too slowly")
    if response.length:
        raise http.client.IncompleteRead(bytes(page[:0]), response.length)
    return page.decode()
