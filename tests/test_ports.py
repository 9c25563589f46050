"""Ports that programs under test get."""

from pathlib import Path

from tests.ports import LOWEST, free_port, free_ports, is_free
from tests.servers import redis_server


def test_no_port_is_given_twice_or_can_be_a_clients() -> None:
    given = [free_port(), *free_ports(3), free_port(), *free_ports(2)]
    first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert len(set(given)) == len(given)
    assert all(LOWEST <= port < first_ephemeral for port in given)


def test_ports_of_one_call_follow_each_other() -> None:
    ports = free_ports(4)
    assert ports == list(range(ports[0], ports[0] + 4))


def test_a_port_on_which_a_program_listens_is_not_free() -> None:
    with redis_server() as redis:
        assert not is_free(redis.port)
        redis.kill()
        assert is_free(redis.port)
