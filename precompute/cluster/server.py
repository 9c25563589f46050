"""One Redis server; the only module of the core that knows redis-py.

The library's own ways are set here, each for a reason:

    retry            none: a call that timed out may have been carried out. Our scripts say what a repeated call means;
                     the library would repeat in silence, whatever the call
    timeouts         2 s to connect, 5 s to answer; blocking reads wait for less than 2 s
    protocol 2       and no callbacks: every reply as the server wrote it, bytes and lists of bytes
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import MasterDownError, NoScriptError, OutOfMemoryError, ReadOnlyError, RedisError, ResponseError
from redis.retry import Retry

from precompute.errors import PrecomputeError

_CONNECT_S, _ANSWER_S = 2.0, 5.0
_REPLICAS_MS = 2000
_AWAY = "BUSY", "MISCONF", "NOREPLICAS", "UNBLOCKED"
"""Beginnings of what a server says that takes no writes for now, or has just become another's replica."""
INFO = ("INFO", "server", "replication")
"""Asks for what `run_of` reads."""

Argument = str | bytes | int | float


class ServerDown(PrecomputeError):
    """A Redis server cannot be asked now; whether the last call was carried out is not known."""


class ServerFull(PrecomputeError):
    """A Redis server has no memory left (maxmemory); the call was not carried out."""


@dataclass(frozen=True)
class Script:
    """A Lua script. It is carried out as a whole, or not at all."""

    text: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha", hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest())


@dataclass(frozen=True)
class Call:
    """A script with its keys and arguments."""

    script: Script
    keys: Sequence[str]
    arguments: Sequence[Argument]


class Server:
    """See the module's text. Any thread may call it; every method may raise ServerDown, and ServerFull if it writes."""

    def __init__(self, url: str) -> None:
        self.name = _without_password(url)
        # the library left most of its methods unannotated
        self._redis: Any = redis.Redis.from_url(
            url, socket_connect_timeout=_CONNECT_S, socket_timeout=_ANSWER_S, retry=Retry(NoBackoff(), 0),
            retry_on_error=[], protocol=2, decode_responses=False, socket_keepalive=True,
        )  # fmt: skip
        self._redis.response_callbacks.clear()

    def run(self, call: Call) -> Any:
        """What the script returns."""
        return self.run_all([call])[0]

    def run_all(self, calls: Sequence[Call]) -> list[Any]:
        """What each script returns, in order; all are sent before the first answer is awaited."""
        return self._run_all(calls, ())

    def run_all_replicated(self, calls: Sequence[Call], replicas: int) -> tuple[list[Any], int]:
        """The same, and how many replicas have it; waits until `replicas` have, but not long."""
        *replies, reached = self._run_all(calls, ("WAIT", replicas, _REPLICAS_MS))
        return replies, int(reached)

    def _run_all(self, calls: Sequence[Call], then: Sequence[Argument]) -> list[Any]:
        replies = self._send(calls, then)
        unknown = [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if unknown:  # a server that was started anew; nothing of these calls was done
            self._load({calls[at].script for at in unknown})
            places = [*unknown, len(calls)] if then else unknown
            for at, reply in zip(places, self._send([calls[at] for at in unknown], then), strict=True):
                replies[at] = reply
        return self._good(replies)

    def ask(self, *command: Argument) -> Any:
        """One plain command."""
        return self.ask_all([command])[0]

    def ask_all(self, commands: Iterable[Sequence[Argument]]) -> list[Any]:
        """Plain commands, sent together."""
        try:
            with self._redis.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                replies = list(pipe.execute(raise_on_error=False))  # else it puts words of its own before the error's
        except RedisError as error:
            raise self._meant(error) from error
        return self._good(replies)

    def info(self) -> dict[str, str]:
        """What it says of itself (INFO); nothing where we may not ask that."""
        try:
            reply = self.ask("INFO")
        except ResponseError:
            return {}
        lines = (line.partition(":") for line in reply.decode().splitlines())
        return {name: value for name, colon, value in lines if colon}

    def wait_for_news(self, after: Mapping[str, str], wait_ms: int, count: int) -> tuple[bytes, dict[str, list[Any]]]:
        """Up to `count` entries of each stream behind those ids, as [id, [field, value, …]]; waits for the first.

        And the `run_of` the server that they are of.
        """
        read: list[Argument] = ["XREAD", "COUNT", count, "BLOCK", wait_ms, "STREAMS", *after, *after.values()]
        info, found = self.ask_all([INFO, read])
        return run_of(info), {name.decode(): entries for name, entries in found or ()}

    def close(self) -> None:
        self._redis.close()

    def _send(self, calls: Sequence[Call], then: Sequence[Argument]) -> list[Any]:
        """Replies or errors; `then`: a command after them, on the same connection, as WAIT must be."""
        try:
            with self._redis.pipeline(transaction=False) as pipe:
                for call in calls:
                    pipe.execute_command("EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.arguments)
                if then:
                    pipe.execute_command(*then)
                return list(pipe.execute(raise_on_error=False))
        except RedisError as error:
            raise self._meant(error) from error

    def _good(self, replies: list[Any]) -> list[Any]:
        """These, unless one is an error."""
        for reply in replies:
            if isinstance(reply, Exception):
                raise self._meant(reply) from reply
        return replies

    def _load(self, scripts: set[Script]) -> None:
        self.ask_all([("SCRIPT", "LOAD", script.text) for script in scripts])

    def _meant(self, error: Exception) -> PrecomputeError:
        if isinstance(error, OutOfMemoryError) or "OOM command not allowed" in str(error):
            return ServerFull(f"Redis at {self.name} has no memory left: raise its maxmemory or lower log.max_bytes")
        away = isinstance(error, (ReadOnlyError, MasterDownError)) or str(error).startswith(_AWAY)
        if isinstance(error, ResponseError) and not away:
            raise error  # of our own making
        return ServerDown(f"Redis at {self.name} cannot be asked: {error}")


def run_of(info: bytes) -> bytes:
    """Of what INFO says, that which differs each time a server is started, between a server and its replica, and once
    a server has another's data."""
    return b" ".join(line for line in info.splitlines() if line.startswith((b"run_id:", b"master_replid:")))


def time_ms(reply: Sequence[bytes]) -> int:
    """What TIME says: the server's clock, in milliseconds since the epoch."""
    seconds, microseconds = reply
    return int(seconds) * 1000 + int(microseconds) // 1000


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
