"""The process of an emulated link: `python -m lab.link_process FD`, where FD is a socket to the lab.

It creates a TUN device with two addresses of this machine and routes two more to it. The kernel sends what goes to
those into the device; the process rewrites the addresses and gives it back to the kernel, later or never:

    client   (near)  -> (far)     =>  (origin) -> (broker)   broker
    client   (near) <-  (far)     <=  (origin) <-  (broker)  broker

So both ends are ordinary sockets of this machine, with real TCP between them, and no network namespace is needed. The
addresses are chosen so that near + far = origin + broker: the checksums of IP and TCP stay correct.

Nothing has to be cleaned up: the device, its addresses and its routes disappear with the process, however it ends. It
ends when the socket to the lab is closed.
"""

import contextlib
import fcntl
import gc
import ipaddress
import json
import os
import re
import select
import socket
import struct
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.link_conditions import Conditions
from lab.link_packets import VIRTIO_HEADER, OneWay

DEVICE = Path("/dev/net/tun")
NAME = "twinlog%d"  # the kernel replaces %d by the first free number
MTU = 1500  # as on the internet: how much loss slows TCP down depends on it
# Packets of two TCP segments halve the work. With more of them, a sender exceeds its send buffer: Linux checks the
# limit only when it begins a packet, sends one of more than two segments (net.ipv4.tcp_min_tso_segs) in parts, and
# fills up the rest again. A network card would hold up the sender; a TUN device takes everything at once.
SEGMENTS = 2
# Linux's default, which few change on a broker; a machine with another one would measure something else.
CONGESTION_CONTROL = "cubic"
_NETWORK = ipaddress.ip_network("198.18.0.0/15")  # for benchmarks (RFC 2544): not routed on the internet
_ADDRESSES_PER_LINK = 8
_PACKETS_QUEUED = 10_000  # by the kernel, if this process gets no CPU; it drops what exceeds it

_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_IFF_TUN, _IFF_NO_PI, _IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
_OFFLOAD_CHECKSUM, _OFFLOAD_TSO4 = 1, 2

_READ = VIRTIO_HEADER + 65_536
_AT_ONCE = 256  # packets read before arrived ones are written
_PAUSE = 0.0005  # between two rounds if there is a delay: packets of that time are handled together, for less CPU
_SOURCE, _END = VIRTIO_HEADER + 12, VIRTIO_HEADER + 20  # the two addresses in the IPv4 header
_DESTINATION = VIRTIO_HEADER + 16


@dataclass(frozen=True, slots=True)
class Addresses:
    """`near` and `broker` belong to this machine; packets to `far` and `origin` pass the link."""

    near: str
    broker: str
    origin: str
    far: str

    @classmethod
    def of(cls, number: int) -> "Addresses":
        """Those of the device with that number: no other device has them."""
        first = _NETWORK.network_address + number * _ADDRESSES_PER_LINK
        return cls(*(str(first + each) for each in range(1, 5)))


class Tun:
    def __init__(self) -> None:
        self.fd = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK)
        request = struct.pack("16sH22x", NAME.encode(), _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR)
        self.name = fcntl.ioctl(self.fd, _TUNSETIFF, request)[:16].rstrip(b"\0").decode()
        fcntl.ioctl(self.fd, _TUNSETOFFLOAD, _OFFLOAD_CHECKSUM | _OFFLOAD_TSO4)
        self.addresses = addresses = Addresses.of(int(re.sub(r"\D", "", self.name)))
        ip("link", "set", self.name, "gso_max_segs", str(SEGMENTS))
        ip("link", "set", self.name, "mtu", str(MTU), "txqueuelen", str(_PACKETS_QUEUED), "up")
        for own, other in ((addresses.near, addresses.far), (addresses.broker, addresses.origin)):
            ip("addr", "add", f"{own}/32", "dev", self.name)
            ip("route", "add", other, "dev", self.name, "src", own, *_congestion_control())


class Emulator:
    def __init__(self, tun: Tun, control: socket.socket) -> None:
        self._tun, self._control = tun, control
        addresses = tun.addresses
        near, broker, origin, far = (
            socket.inet_aton(each) for each in (addresses.near, addresses.broker, addresses.origin, addresses.far)
        )
        self._requests, self._responses = OneWay(seed=1), OneWay(seed=2)
        self._routes = {far: (self._requests, origin + broker), origin: (self._responses, far + near)}
        self._received = b""

    def run(self) -> None:
        """Returns when the lab closes the socket."""
        control, tun = self._control.fileno(), self._tun.fd
        while True:
            ready, _, _ = select.select([control, tun], [], [], self._pause())
            if self._requests.conditions.delay:
                time.sleep(_PAUSE)
            if tun in ready:
                self._read()
            self._write()
            if control in ready and not self._handle_commands():
                return

    def _pause(self) -> float | None:
        dues = [path.next_due for path in (self._requests, self._responses) if path.next_due is not None]
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def _read(self) -> None:
        now = time.monotonic()
        with contextlib.suppress(BlockingIOError):
            for _ in range(_AT_ONCE):
                packet = os.read(self._tun.fd, _READ)
                path, addresses = self._routes.get(packet[_DESTINATION:_END], (None, b""))
                if path is not None:  # else the kernel's own, such as IPv6 neighbour discovery
                    path.add(packet[:_SOURCE] + addresses + packet[_END:], now)

    def _write(self) -> None:
        now = time.monotonic()
        for path in (self._requests, self._responses):
            for packet in path.due(now):
                with contextlib.suppress(BlockingIOError):  # no memory: as on any link, TCP resends it
                    os.write(self._tun.fd, packet)

    def _handle_commands(self) -> bool:
        """A line is the JSON of conditions; the response is that of the counters. An empty object changes nothing."""
        data = self._control.recv(65_536)
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            if changes := json.loads(line):
                for path in (self._requests, self._responses):
                    path.change(Conditions(**changes))
            counters = {"requests": asdict(self._requests.counters), "responses": asdict(self._responses.counters)}
            send(self._control, counters)
        return bool(data)


def send(to: socket.socket, message: dict[str, Any]) -> None:
    to.sendall(json.dumps(message).encode() + b"\n")


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def _congestion_control() -> list[str]:
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    return ["congctl", CONGESTION_CONTROL] if CONGESTION_CONTROL in available else []


def main(fd: int) -> None:
    with socket.socket(fileno=fd) as control:
        try:
            tun = Tun()
        except (LabError, OSError) as error:
            send(control, {"error": str(error)})
            return
        with contextlib.suppress(OSError):  # a delay must not depend on how busy the machine is
            os.setpriority(os.PRIO_PROCESS, 0, -10)
        send(control, {"device": tun.name, **asdict(tun.addresses)})
        gc.disable()
        Emulator(tun, control).run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
