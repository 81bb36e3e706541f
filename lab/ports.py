"""Ports for brokers, outside the system's ephemeral range.

A killed broker must get its port back when it restarts; a port of the ephemeral range could have been taken by an
outgoing connection in the meantime.
"""

import random
import socket
from pathlib import Path

from lab.errors import LabError

HOST = "127.0.0.1"  # not "localhost": many clients would try ::1 first and log an error
_LOWEST, _HIGHEST = 10_000, 65_535
_allocated: set[int] = set()


def free_port() -> int:
    """A port that is not in use and that this process has not handed out before."""
    candidates = [port for port in outside(ephemeral_range()) if port not in _allocated]
    for port in random.sample(candidates, min(len(candidates), 200)):
        if _is_free(port):
            _allocated.add(port)
            return port
    raise LabError("no free port on 127.0.0.1 outside the ephemeral range: stop brokers of other test runs")


def preferred_port(wanted: int) -> int:
    """The wanted port, or any other if it is in use."""
    return wanted if _is_free(wanted) else free_port()


def ephemeral_range(source: Path = Path("/proc/sys/net/ipv4/ip_local_port_range")) -> tuple[int, int]:
    try:
        low, high = source.read_text().split()
    except OSError:
        return 49_152, 65_535  # IANA's range, also macOS's
    return int(low), int(high)


def outside(ephemeral: tuple[int, int]) -> list[int]:
    """Ports outside that range; if it leaves fewer than 1000, all ports."""
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
