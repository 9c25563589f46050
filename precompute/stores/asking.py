"""One use of a database, by whatever thread: where its errors become StoreError."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections
from django.db.utils import Error

from precompute.stores.base import StoreError


@contextmanager
def asking(using: str, what: str) -> Iterator[None]:
    """A connection to the database that Django calls `using`, which keeps `what`. Raises StoreError.

    A server's is closed at the end by whoever opened it: there are few, and many threads that answer requests. SQLite's
    stays the thread's.
    """
    connection = connections[using]
    connection.close_if_unusable_or_obsolete()
    opened = connection.connection is None
    try:
        connection.ensure_connection()
        yield
    except Error as error:
        raise StoreError(f"the database of {what} failed: {error}") from error
    finally:
        if opened and connection.vendor == "postgresql":
            connection.close()
