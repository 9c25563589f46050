"""What processes of one kind tell each other by the way: a stream on the first server that keeps the newest only.

asked    stream: `by`, who tells, and `b`, what
"""

from contextlib import suppress

from precompute.cluster.server import Server, ServerDown, ServerFull

_KEY = "asked"
_KEPT = 64
"""Entries; whoever listens about once a second sees all that a few dozen processes tell in that time."""


class SharedBoard:
    """`news` is called by one thread. What the server does not take, or has dropped, is lost."""

    def __init__(self, server: Server, name: str) -> None:
        """name: differs from every other process's."""
        self._server, self._name = server, name
        self._after: str | None = None

    def tell(self, said: bytes) -> None:
        """To all others that listen."""
        with suppress(ServerDown, ServerFull):
            self._server.ask("XADD", _KEY, "MAXLEN", _KEPT, "*", "by", self._name, "b", said)

    def news(self) -> list[bytes]:
        """What others have told since the last call; at the first call nothing."""
        try:
            if self._after is None:
                newest = self._server.ask("XREVRANGE", _KEY, "+", "-", "COUNT", 1)
                self._after = newest[0][0].decode() if newest else "0-0"
                return []
            entries = self._server.ask("XRANGE", _KEY, f"({self._after}", "+", "COUNT", _KEPT)
        except ServerDown:
            return []
        if entries:
            self._after = entries[-1][0].decode()
        return [said for _, (_, by, _, said) in entries if by != self._name.encode()]
