"""A long link to a cluster, emulated on this machine: delay, jitter, a limited rate, loss, a cut.

    with Lab() as lab, open_link() as link:
        us = lab.cluster("us", listeners=(PLAINTEXT, link.listener))
        link.change(Conditions(round_trip=0.1, loss=0.001))
        link.client_properties(us)     # of a client far away from us
        us.client_properties()         # of one nearby: through its first listener, without delay

As root on Linux, packets pass a TUN device and a process (link_process.py), with real TCP: windows and socket buffers
limit the throughput of a connection per round trip, and TCP recovers from loss. Elsewhere it is a TCP proxy (proxy.py)
that delays, and limits the bytes in flight of each connection; it cannot lose packets. `link.kind` states which.
"""

import contextlib
import json
import shutil
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lab.cluster import Cluster
from lab.errors import LabError
from lab.link_conditions import Conditions
from lab.link_process import DEVICE, ip, send
from lab.listeners import Listener
from lab.process import Process, temporary_folder
from lab.proxy import Proxy
from lab.proxy_io import Direction

_NAME = "FAR"
_DIRECTIONS: tuple[Direction, ...] = ("requests", "responses")
_SECONDS = 30.0  # a command takes milliseconds
_PROBE_SECONDS = 5.0  # without delay, a connection takes well under a millisecond
# What a broker has in flight with its default of socket.send.buffer.bytes = 102400, measured with a TUN device: Linux
# doubles the value, and counts its own overhead.
WINDOW = 160_000


class EmulatedLink(ABC):
    """A cluster is far away for clients of `listener`, which must be one of its listeners, and not for others."""

    kind: str
    listener: Listener
    loses_packets: bool

    def __init__(self) -> None:
        self._conditions = Conditions()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def change(self, conditions: Conditions) -> None:
        """Applies to open and to new connections when it returns."""
        self._apply(conditions)
        self._conditions = conditions

    def cut(self) -> None:
        """Nothing passes; connections stay open. After `restore` they continue, if they have not timed out."""
        self.change(replace(self._conditions, cut=True))

    def restore(self) -> None:
        self.change(replace(self._conditions, cut=False))

    @abstractmethod
    def client_properties(self, cluster: Cluster, user: str | None = None) -> dict[str, str]:
        """Those of a Java client that reaches the cluster over the link."""

    @abstractmethod
    def librdkafka_properties(self, cluster: Cluster, user: str | None = None) -> dict[str, str]: ...

    @abstractmethod
    def passed_bytes(self) -> int:
        """In both directions, since it was opened."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _apply(self, conditions: Conditions) -> None: ...


def open_link() -> EmulatedLink:
    """A TUN device if possible, else a proxy whose `kind` contains the reason."""
    try:
        return TunLink()
    except LabError as error:
        return ProxyLink(f"TCP proxy ({error})")


class TunLink(EmulatedLink):
    """Raises a LabError with the reason if this machine has no TUN device for us."""

    def __init__(self) -> None:
        super().__init__()
        if reason := _missing():
            raise LabError(reason)
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(temporary_folder())
            self._control, remote = socket.socketpair()
            stack.callback(self._control.close)
            self._control.settimeout(_SECONDS)
            self.process = Process("link emulator", folder / "link.log")
            with remote:
                self.process.launch(
                    [sys.executable, "-S", "-m", "lab.link_process", str(remote.fileno())],
                    env={"PYTHONPATH": str(Path(__file__).parent.parent)},
                    pass_fds=[remote.fileno()],
                )
            stack.callback(self.process.kill)
            self._received = b""
            found = self._receive()
            if "error" in found:
                raise LabError(f"no TUN device: {found['error']}")
            self.device: str = found["device"]
            self.kind, self.loses_packets = f"TUN device {self.device}", True
            self.listener = Listener(_NAME, host=found["broker"], advertised_host=found["far"])
            self._remote_addresses = (found["far"], found["origin"])
            _probe(self.listener)
            self._stack = stack.pop_all()

    def client_properties(self, cluster: Cluster, user: str | None = None) -> dict[str, str]:
        return cluster.client_properties(self.listener, user)

    def librdkafka_properties(self, cluster: Cluster, user: str | None = None) -> dict[str, str]:
        return cluster.librdkafka_properties(self.listener, user)

    def counters(self) -> dict[str, dict[str, int]]:
        """Of `requests` and `responses`: segments that have passed, were lost, or exceeded the rate, and bytes."""
        return self._call({})

    def passed_bytes(self) -> int:
        return sum(each["bytes"] for each in self.counters().values())

    def close(self) -> None:
        """Removes the device. Connections over it are not reset: their peers have become unreachable."""
        self._stack.close()

    def _apply(self, conditions: Conditions) -> None:
        self._call(asdict(conditions))
        # Linux begins a connection with the round trip and the window of earlier ones to the same address.
        for each in self._remote_addresses:
            with contextlib.suppress(LabError):  # there may have been none
                ip("tcp_metrics", "flush", each)

    def _call(self, command: Mapping[str, Any]) -> dict[str, Any]:
        try:
            send(self._control, dict(command))
        except OSError as error:
            raise LabError(self.process.exit_report() or f"link emulator: {error}") from error
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        while b"\n" not in self._received:
            try:
                data = self._control.recv(65_536)
            except OSError as error:
                raise LabError(f"link emulator: {error}{self.process.log_excerpt()}") from error
            if not data:
                self.process.wait(_SECONDS)
                raise LabError(self.process.exit_report() or "link emulator: closed its socket")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return dict(json.loads(line))


class ProxyLink(EmulatedLink):
    """A proxy for each cluster that is reached over the link. Its clients must not bypass it: see proxy.py."""

    def __init__(self, kind: str = "TCP proxy") -> None:
        super().__init__()
        self.kind, self.loses_packets = kind, False
        self.listener = Listener(_NAME)
        self._proxies: dict[Cluster, Proxy] = {}

    def client_properties(self, cluster: Cluster, user: str | None = None) -> dict[str, str]:
        return self._proxy(cluster).client_properties(user)

    def librdkafka_properties(self, cluster: Cluster, user: str | None = None) -> dict[str, str]:
        return self._proxy(cluster).librdkafka_properties(user)

    def passed_bytes(self) -> int:
        return sum(proxy.passed(each) for proxy in self._proxies.values() for each in _DIRECTIONS)

    def close(self) -> None:
        for proxy in self._proxies.values():
            proxy.close()
        self._proxies.clear()

    def _proxy(self, cluster: Cluster) -> Proxy:
        if cluster not in self._proxies:
            proxy = Proxy(cluster, self.listener)
            _configure(proxy, self._conditions)
            self._proxies[cluster] = proxy.__enter__()
        return self._proxies[cluster]

    def _apply(self, conditions: Conditions) -> None:
        if conditions.loss:
            raise LabError(f"cannot emulate loss: this link is a {self.kind}")
        for proxy in self._proxies.values():
            _configure(proxy, conditions)


def _configure(proxy: Proxy, conditions: Conditions) -> None:
    proxy.delay(conditions.delay, conditions.jitter)
    proxy.limit(conditions.rate)
    # A byte is in flight for a whole round trip, until it is acknowledged; the proxy holds it for half of it.
    proxy.limit_in_flight(WINDOW // 2 if conditions.round_trip else None)
    if conditions.cut:
        proxy.stall()
    else:
        proxy.resume()


def _missing() -> str | None:
    """What a TUN device needs and this machine does not have."""
    if not DEVICE.exists():
        return f"no {DEVICE}"
    return None if shutil.which("ip") else "no command `ip`: install iproute2"


def _probe(listener: Listener) -> None:
    """Raises an error unless a connection over the link works: a firewall may drop its packets."""
    with socket.create_server((listener.host, 0)) as server:
        server.settimeout(_PROBE_SECONDS)
        port = server.getsockname()[1]
        try:
            with socket.create_connection((listener.advertised_host, port), _PROBE_SECONDS):
                server.accept()[0].close()
        except OSError as error:
            raise LabError(f"no connection over the TUN device: {error}") from error
