"""Ports of 127.0.0.1 for programs under test."""

import itertools
import os
import random
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

LOWEST = 10_000
SLICES = 8
"""As many processes of one test run never choose the same port."""
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def is_free(port: int) -> bool:
    """Whether a program could listen there now."""
    with closing(socket.socket()) as probe:
        # as servers do: what is left of a closed connection is no hindrance
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    """So many ports in a row that are free, were not given before, and stay free until somebody asked for them.

    They lie below the range from which outgoing connections take theirs: in it, any client on the machine may get a
    port before the program under test listens there, or while it is down; and a client that tries a dead server again
    and again is sooner or later connected to itself.
    """
    while True:
        found = list(itertools.islice(_own, count))
        if found[-1] - found[0] == count - 1 and all(map(is_free, found)):
            return found


def free_port() -> int:
    """One of `free_ports`."""
    return free_ports(1)[0]


def _slice() -> Iterator[int]:
    """The ports of this process of the test run, from a random one on, round and round."""
    first_ephemeral = int(_EPHEMERAL.read_text().split()[0])
    size = (first_ephemeral - LOWEST) // SLICES
    place = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % SLICES
    start = random.SystemRandom().randrange(size)
    return itertools.cycle(LOWEST + place * size + (start + at) % size for at in range(size))


_own = _slice()
