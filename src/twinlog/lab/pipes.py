"""How the proxy moves bytes: connections of two pipes each, all of them in the hands of one thread.

    client == requests ==> [ queue ] ==> broker
    client <== [ queue ] <== rewriting <== answers == broker

Whatever is changed here is changed by that thread, so it holds from the next byte on.
"""

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Literal

from twinlog.lab.ports import HOST

Direction = Literal["requests", "answers"]
Waiting = Iterator[tuple[socket.socket, int, Callable[[], None]]]

_CHUNK = 256 << 10
_IN_FLIGHT = 8 << 20  # bytes that a pipe holds before it reads no more
_BURST = 0.02  # seconds of a limited rate that may pass at once
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER without lingering: close() sends RST
_FOREVER = float("inf")


class Way:
    """To one broker: a door, the connections that came in, and how badly they are treated."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.target = target
        self.addresses: Mapping[bytes, bytes] = {}
        self.connections: list[Connection] = []
        self.passed: dict[Direction, int] = {"requests": 0, "answers": 0}
        self.stalled = False
        self.deaf = False
        self.delay = 0.0
        self.cut_after: dict[Direction, int] = {}
        self._rate: float | None = None
        self._allowance: dict[Direction, tuple[float, float]] = {}
        self._door: socket.socket | None = None

    def open(self) -> None:
        if self._door is None:
            self._door = socket.create_server((HOST, self.port), backlog=128)
            self._door.settimeout(0)

    def shut(self) -> None:
        if self._door is not None:
            self._door.close()
            self._door = None

    def cut(self, *, only_lossy: bool = False) -> None:
        for connection in list(self.connections):
            if connection.lost or not only_lossy:
                connection.reset()

    def limit(self, rate: float | None) -> None:
        self._rate = rate
        self._allowance.clear()

    def budget(self, direction: Direction, now: float) -> float:
        """How many bytes may pass now."""
        if self._rate is None:
            return _FOREVER
        most = max(1.0, self._rate * _BURST)
        left, then = self._allowance.get(direction, (most, now))
        left = min(most, left + (now - then) * self._rate)
        self._allowance[direction] = (left, now)
        return left

    def budget_comes(self, direction: Direction, now: float) -> float:
        """The time at which at least one byte may pass."""
        return now if self._rate is None else now + max(0.0, 1 - self.budget(direction, now)) / self._rate

    @property
    def room(self) -> float:
        """A slow line that swallowed megabytes at once would look fast to a sender."""
        return _IN_FLIGHT if self._rate is None else max(65536.0, self._rate * (self.delay + 0.1))

    def count(self, direction: Direction, count: int) -> bool:
        """Whether the connection may live on."""
        self.passed[direction] += count
        if direction in self._allowance:
            left, then = self._allowance[direction]
            self._allowance[direction] = (left - count, then)
        if direction not in self.cut_after:
            return True
        self.cut_after[direction] -= count
        if self.cut_after[direction] > 0:
            return True
        del self.cut_after[direction]
        return False

    def waiting(self, now: float) -> Waiting:
        if self._door is not None:
            yield self._door, select.POLLIN, self._welcome
        if not self.stalled:
            for connection in self.connections:
                for pipe in connection.pipes:
                    yield from pipe.waiting(now)

    def next_time(self, now: float) -> float:
        """When there is something to do even if no socket stirs."""
        if self.stalled:
            return _FOREVER
        return min((pipe.next_time(now) for each in self.connections for pipe in each.pipes), default=_FOREVER)

    def flush(self, now: float) -> None:
        if not self.stalled:
            for connection in list(self.connections):
                for pipe in connection.pipes:
                    pipe.write(now)

    def _welcome(self) -> None:
        with suppress(BlockingIOError, ConnectionError):
            while self._door is not None:
                client, _ = self._door.accept()
                self.connections.append(Connection(self, client))


class Connection:
    def __init__(self, way: Way, client: socket.socket) -> None:
        self.way = way
        self.lost = False  # answers were dropped: whatever came next would not be what the client waits for
        self.closed = False
        broker = socket.socket()
        self._sockets = (client, broker)
        for each in self._sockets:
            each.settimeout(0)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        broker.connect_ex((HOST, way.target))  # a refusal shows when the first byte is to move
        self.pipes = (
            Pipe(self, "requests", client, broker, bytes),
            Pipe(self, "answers", broker, client, Rewriter(way.addresses).feed),
        )

    def reset(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.close()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.way.connections.remove(self)
            for each in self._sockets:
                each.close()

    def close_if_done(self) -> None:
        if all(pipe.done for pipe in self.pipes):
            self.close()


class Pipe:
    def __init__(
        self,
        connection: Connection,
        direction: Direction,
        source: socket.socket,
        sink: socket.socket,
        change: Callable[[bytes], bytes],
    ) -> None:
        self.done = False
        self._connection = connection
        self._way = connection.way
        self._direction: Direction = direction
        self._source = source
        self._sink = sink
        self._change = change
        self._queue: deque[tuple[float, memoryview]] = deque()
        self._queued = 0
        self._ended = False

    def waiting(self, now: float) -> Waiting:
        if not self._ended and self._queued < self._way.room:
            yield self._source, select.POLLIN, self._read
        if self._queue and self._queue[0][0] <= now and self._way.budget(self._direction, now) >= 1:
            yield self._sink, select.POLLOUT, lambda: self.write(time.monotonic())

    def next_time(self, now: float) -> float:
        if not self._queue:
            return _FOREVER
        due = max(self._queue[0][0], self._way.budget_comes(self._direction, now))
        return due if due > now else _FOREVER  # then it waits for its sink

    def _read(self) -> None:
        if self._connection.closed:
            return
        try:
            data = self._source.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self._connection.reset()
            return
        now = time.monotonic()
        if not data:
            self._ended = True
        elif changed := self._change(data):
            self._queue.append((now + self._way.delay, memoryview(changed)))
            self._queued += len(changed)
        self.write(now)

    def write(self, now: float) -> None:
        """As much as may and can pass now."""
        if self._connection.closed:
            return
        if self._way.deaf and self._direction == "answers" and self._queue:
            self._connection.lost = True
            self._queue.clear()
            self._queued = 0
        try:
            self._write(now)
        except BlockingIOError:
            return
        except OSError:
            self._connection.reset()

    def _write(self, now: float) -> None:
        while self._queue and self._queue[0][0] <= now:
            due, data = self._queue[0]
            most = min(len(data), self._way.budget(self._direction, now))
            if most < 1:
                return
            sent = self._sink.send(data[: int(min(most, self._way.cut_after.get(self._direction, most)))])
            self._queued -= sent
            if sent < len(data):
                self._queue[0] = (due, data[sent:])
            else:
                self._queue.popleft()
            if not self._way.count(self._direction, sent):
                self._connection.reset()
                return
        if self._ended and not self._queue and not self.done:
            self.done = True
            self._sink.shutdown(socket.SHUT_WR)
            self._connection.close_if_done()


class Rewriter:
    """Puts other addresses in the place of brokers' own, in a stream of answers; no length changes."""

    def __init__(self, addresses: Mapping[bytes, bytes]) -> None:
        self._addresses = addresses
        self._tail = max(map(len, addresses), default=1) - 1
        self._held = b""
        self._left = 0  # of an answer, what is not passed on yet

    def feed(self, data: bytes) -> bytes:
        """What can be passed on now: an address may be cut in two, so the end of an unfinished answer is held back."""
        data = self._held + data
        self._held = b""
        out = []
        position = 0
        while position < len(data):
            if not self._left:
                if len(data) - position < 4:
                    self._held = data[position:]
                    break
                self._left = int.from_bytes(data[position : position + 4])
                out.append(data[position : position + 4])
                position += 4
                continue
            part = self._replaced(data[position : position + self._left])
            position += len(part)
            if len(part) < self._left:
                keep = min(self._tail, len(part))
                self._held = part[len(part) - keep :]
                part = part[: len(part) - keep]
            out.append(part)
            self._left -= len(part)
        return b"".join(out)

    def _replaced(self, part: bytes) -> bytes:
        if HOST.encode() in part:
            for address, other in self._addresses.items():
                part = part.replace(address, other)
        return part
