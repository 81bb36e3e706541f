"""Ports for brokers: outside the range from which the system takes ports for outgoing connections.

A broker that is killed and restarted must get its own port back; from the ephemeral range any client on this machine
could have taken it meanwhile.
"""

import random
import socket
from pathlib import Path

from twinlog.errors import LabError

HOST = "127.0.0.1"  # not "localhost": half of the clients would try ::1 first and complain
_LOWEST, _HIGHEST = 10_000, 65_535
_given: set[int] = set()


def free_port() -> int:
    """A port that nobody uses now and that this process has not given before."""
    candidates = [port for port in outside(ephemeral_range()) if port not in _given]
    for port in random.sample(candidates, min(len(candidates), 200)):
        if _is_free(port):
            _given.add(port)
            return port
    raise LabError("no free port found on 127.0.0.1: are hundreds of brokers running here?")


def chosen_port(wanted: int) -> int:
    """The port that people know, or any other where somebody has it already."""
    return wanted if _is_free(wanted) else free_port()


def ephemeral_range(source: Path = Path("/proc/sys/net/ipv4/ip_local_port_range")) -> tuple[int, int]:
    try:
        low, high = source.read_text().split()
    except OSError:
        return 49_152, 65_535  # what IANA says and macOS does
    return int(low), int(high)


def outside(ephemeral: tuple[int, int]) -> list[int]:
    """The candidates; where a system's range leaves too few of them, all ports: any other choice would be worse."""
    everything = range(_LOWEST, _HIGHEST + 1)
    free = [port for port in everything if not ephemeral[0] <= port <= ephemeral[1]]
    return free if len(free) >= 1000 else list(everything)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
