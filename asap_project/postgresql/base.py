"""Connections to a PostgreSQL that may fall silent: a process that stands still, a network that drops packets.

The kernel of such a server still takes what is sent, so neither its own timeouts nor those of TCP end the wait. Here
a connection that has said nothing for too long is closed, with an OperationalError.

Nor does it let in more than so many, of all processes together: one opens no more than its own (places.py).
"""

import time
from collections.abc import Generator
from typing import Any, ClassVar

import psycopg
from django.db.backends.postgresql import base
from django.db.backends.postgresql.psycopg_any import IsolationLevel

from asap_project.postgresql.places import Place, Places

PING_S, READ_S, CHANGE_S = 2.0, 5.0, 60.0
"""How long it may be silent: when it is asked whether it is there, in a statement alone, and in a transaction."""


class Silent(psycopg.OperationalError):
    """Nothing was heard for too long; the connection is closed."""


class Connection(psycopg.Connection[Any]):
    """A connection of psycopg; see the module's text."""

    silent_s: float | None = None
    """Instead of READ_S and CHANGE_S."""

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **more: Any) -> Any:
        silent_s = self.silent_s or (READ_S if self.autocommit else CHANGE_S)
        try:
            return super().wait(_heard(gen, silent_s), *args, **more)
        except Silent:
            self.close()
            raise


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's own, with these connections; MOST_CONNECTIONS of the settings of this process at a time."""

    _all_places: ClassVar[dict[str, Places]] = {}
    _place: Place | None = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Connection:
        self.isolation_level = IsolationLevel.READ_COMMITTED
        self._place, made = self._places.take(), None
        try:
            made = Connection.connect(**conn_params)
            return made
        finally:
            if made is None:
                self._leave(failed=True)

    def _close(self) -> None:
        if self.connection is not None:
            failed = self.connection.closed
            self.connection.close()
            self._leave(failed)

    @property
    def _places(self) -> Places:
        return self._all_places.setdefault(self.alias, Places(self.settings_dict["MOST_CONNECTIONS"]))

    def _leave(self, failed: bool) -> None:
        if self._place is not None:
            self._places.leave(self._place, failed)
            self._place = None

    def is_usable(self) -> bool:
        if self.connection is None:
            return False
        before_s, self.connection.silent_s = self.connection.silent_s, PING_S
        try:
            return super().is_usable()
        finally:
            self.connection.silent_s = before_s


def _heard(gen: Generator[Any, Any, Any], silent_s: float) -> Generator[Any, Any, Any]:
    """The same steps, each of which waits for the socket; psycopg sends 0 where nothing came within 0.1 s."""
    heard_s = time.monotonic()
    try:
        step = next(gen)
        while True:
            ready = yield step
            now_s = time.monotonic()
            if ready:
                heard_s = now_s
            elif now_s - heard_s >= silent_s:
                raise Silent(f"nothing was heard for {silent_s:.0f} s")
            step = gen.send(ready)
    except StopIteration as end:
        return end.value
