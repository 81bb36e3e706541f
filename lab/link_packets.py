"""One direction of an emulated link: which packets pass, and when. Time is an argument.

A packet is what a TUN device with TCP segmentation offload reads and writes: a virtio header, then an IPv4 packet that
may stand for several TCP segments. It is forwarded as it is, but loss and rate apply to each segment: a packet that
loses some of them is split into the runs that remain.
"""

import random
import struct
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.link_conditions import Conditions

VIRTIO_HEADER = 10  # flags, type, header length, segment size (u16), checksum's start and offset
_VIRTIO = struct.Struct("=BBHHHH")
_NEEDS_CHECKSUM = 1  # the checksum field contains the sum of the pseudo header only
_TCP_IPV4 = 1
_ECN = 0x80
_FIN_PSH, _CWR = 0x09, 0x80
# A router's buffer at a limited rate: what would wait longer is lost, and the sender slows down.
QUEUE_SECONDS = 0.1


@dataclass(slots=True)
class Counters:
    """Segments, and the bytes of those that have passed; `overflowed` ones were lost because the rate was exceeded."""

    passed: int = 0
    bytes: int = 0
    lost: int = 0
    overflowed: int = 0


class OneWay:
    """One direction. Packets that pass are returned by `due` in the order of `add`."""

    def __init__(self, seed: int = 0) -> None:
        self.conditions = Conditions()
        self.counters = Counters()
        self._random = random.Random(seed)  # noqa: S311  (repeatable, not secret)
        self._queue: deque[tuple[float, bytes]] = deque()
        self._busy_until = 0.0  # the limited rate is used until then
        self._last_due = 0.0

    def change(self, conditions: Conditions) -> None:
        """Packets that are on their way arrive by the conditions under which they were sent, unless the link is cut."""
        self.conditions = conditions
        self._busy_until = 0.0
        if conditions.cut:
            self.counters.lost += sum(segments(packet) for _, packet in self._queue)
            self._queue.clear()

    def add(self, packet: bytes, now: float) -> None:
        conditions = self.conditions
        count = segments(packet)
        if conditions.cut:
            self.counters.lost += count
            return
        remaining: Sequence[bytes] = (packet,)
        if conditions.loss or conditions.rate:
            size = (len(packet) - VIRTIO_HEADER) / count
            passes = [self._passes(size, now) for _ in range(count)]
            if not all(passes):
                remaining = list(split(packet, passes))
            count = sum(passes)
        self.counters.passed += count
        self.counters.bytes += sum(map(len, remaining))
        due = max(now, self._busy_until) + conditions.delay
        if conditions.jitter:
            due += self._random.random() * conditions.jitter
        self._last_due = due = max(due, self._last_due)
        self._queue.extend((due, each) for each in remaining)

    @property
    def next_due(self) -> float | None:
        return self._queue[0][0] if self._queue else None

    def due(self, now: float) -> Iterator[bytes]:
        """Removes and returns the packets that have arrived by now."""
        while self._queue and self._queue[0][0] <= now:
            yield self._queue.popleft()[1]

    def _passes(self, size: float, now: float) -> bool:
        rate = self.conditions.rate
        if rate is not None:
            if self._busy_until - now > QUEUE_SECONDS:
                self.counters.overflowed += 1
                return False
            self._busy_until = max(now, self._busy_until) + size / rate
        if self._random.random() < self.conditions.loss:
            self.counters.lost += 1
            return False
        return True


def segments(packet: bytes) -> int:
    """The number of TCP segments in a packet."""
    kind, size = packet[1] & ~_ECN, int.from_bytes(packet[4:6], sys.byteorder)
    if kind != _TCP_IPV4 or not size:
        return 1
    return max(1, -(-(len(packet) - VIRTIO_HEADER - _header_bytes(packet)) // size))


def split(packet: bytes, keep: Sequence[bool]) -> Iterator[bytes]:
    """A packet for each run of segments to keep."""
    start = 0
    while start < len(keep):
        if not keep[start]:
            start += 1
            continue
        end = start
        while end < len(keep) and keep[end]:
            end += 1
        yield packet if end - start == len(keep) else _part(packet, start, end, is_last=end == len(keep))
        start = end


def _part(packet: bytes, start: int, end: int, *, is_last: bool) -> bytes:
    """The segments from `start` to `end` (exclusive), with all headers adjusted."""
    flags, kind, _, size, checksum_start, checksum_offset = _VIRTIO.unpack_from(packet)
    header = _header_bytes(packet)
    first = VIRTIO_HEADER + header + start * size
    payload = packet[first : VIRTIO_HEADER + header + end * size]
    part = bytearray(packet[: VIRTIO_HEADER + header])
    if end - start == 1:
        kind = size = 0
    _VIRTIO.pack_into(part, 0, flags, kind, header, size, checksum_start, checksum_offset)

    ip = VIRTIO_HEADER
    tcp = ip + 4 * (part[ip] & 15)
    before, after = int.from_bytes(part[ip + 2 : ip + 4]), header + len(payload)
    part[ip + 2 : ip + 4] = after.to_bytes(2)
    part[ip + 10 : ip + 12] = bytes(2)
    part[ip + 10 : ip + 12] = (0xFFFF ^ _sum(part[ip:tcp])).to_bytes(2)

    sequence = int.from_bytes(part[tcp + 4 : tcp + 8]) + first - VIRTIO_HEADER - header
    part[tcp + 4 : tcp + 8] = (sequence & 0xFFFFFFFF).to_bytes(4)
    if not is_last:
        part[tcp + 13] &= ~_FIN_PSH
    if start:
        part[tcp + 13] &= ~_CWR
    assert flags & _NEEDS_CHECKSUM  # always so for several segments
    pseudo = int.from_bytes(part[tcp + 16 : tcp + 18]) + (0xFFFF ^ before) + after
    part[tcp + 16 : tcp + 18] = _fold(pseudo).to_bytes(2)
    return bytes(part) + payload


def _header_bytes(packet: bytes) -> int:
    """Of the IPv4 and the TCP header. The virtio header's own field is only a hint."""
    ip = 4 * (packet[VIRTIO_HEADER] & 15)
    return ip + 4 * (packet[VIRTIO_HEADER + ip + 12] >> 4)


def _sum(data: bytes | bytearray) -> int:
    """The one's complement sum of 16-bit words."""
    return _fold(sum(struct.unpack(f">{len(data) // 2}H", data)))


def _fold(total: int) -> int:
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total
