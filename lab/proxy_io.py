"""Forwarding of the proxy: each connection has a pipe per direction. Used by the proxy's thread only.

client == requests ==> [ queue ] ==> broker
client <== [ queue ] <== rewriting <== responses == broker
"""

import random
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Literal

from lab.ports import HOST

Direction = Literal["requests", "responses"]
Pending = Iterator[tuple[socket.socket, int, Callable[[], None]]]  # socket, poll event, handler

_CHUNK = 256 << 10
IN_FLIGHT = 8 << 20  # bytes that a pipe queues before it stops reading, unless it is limited
_BURST = 0.02  # seconds' worth of a limited rate that may pass at once
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER without lingering: close() sends RST
_INFINITE = float("inf")


class BrokerLink:
    """The proxy of one broker: its listening socket, its connections and the faults that apply to them."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.target = target
        self.addresses: Mapping[bytes, bytes] = {}
        self.connections: list[Connection] = []
        self.passed: dict[Direction, int] = {"requests": 0, "responses": 0}
        self.stalled = False
        self.drops_responses = False
        self.delay = self.jitter = 0.0
        self.in_flight: float = IN_FLIGHT
        self.cut_after: dict[Direction, int] = {}
        self._rate: float | None = None
        self._allowance: dict[Direction, tuple[float, float]] = {}
        self._server: socket.socket | None = None

    def listen(self) -> None:
        if self._server is None:
            self._server = socket.create_server((HOST, self.port), backlog=128)
            self._server.settimeout(0)

    def stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def cut(self, *, only_lossy: bool = False) -> None:
        for connection in list(self.connections):
            if connection.lossy or not only_lossy:
                connection.reset()

    def limit(self, rate: float | None) -> None:
        self._rate = rate
        self._allowance.clear()

    def budget(self, direction: Direction, now: float) -> float:
        """How many bytes may pass now."""
        if self._rate is None:
            return _INFINITE
        limit = max(1.0, self._rate * _BURST)
        left, then = self._allowance.get(direction, (limit, now))
        left = min(limit, left + (now - then) * self._rate)
        self._allowance[direction] = (left, now)
        return left

    def budget_time(self, direction: Direction, now: float) -> float:
        """When at least one byte may pass."""
        return now if self._rate is None else now + max(0.0, 1 - self.budget(direction, now)) / self._rate

    def one_way(self) -> float:
        """Seconds from one side to the other. A pipe is a queue, so jitter does not change the order."""
        return self.delay + random.uniform(0, self.jitter)  # noqa: S311  (not secret)

    @property
    def queue_limit(self) -> float:
        """Small for a limited rate: a link that queued megabytes at once would look fast to a sender."""
        if self._rate is None:
            return self.in_flight
        return min(self.in_flight, max(65536.0, self._rate * (self.delay + 0.1)))

    def count(self, direction: Direction, count: int) -> bool:
        """Accounts for forwarded bytes; False if the connection must be reset now."""
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

    def pending(self, now: float) -> Pending:
        if self._server is not None:
            yield self._server, select.POLLIN, self._accept
        if not self.stalled:
            for connection in self.connections:
                for pipe in connection.pipes:
                    yield from pipe.pending(now)

    def next_time(self, now: float) -> float:
        """When there is something to do even if no socket becomes ready."""
        if self.stalled:
            return _INFINITE
        return min((pipe.next_time(now) for each in self.connections for pipe in each.pipes), default=_INFINITE)

    def flush(self, now: float) -> None:
        if not self.stalled:
            for connection in list(self.connections):
                for pipe in connection.pipes:
                    pipe.write(now)

    def _accept(self) -> None:
        with suppress(BlockingIOError, ConnectionError):
            while self._server is not None:
                client, _ = self._server.accept()
                self.connections.append(Connection(self, client))


class Connection:
    def __init__(self, link: BrokerLink, client: socket.socket) -> None:
        self.link = link
        self.lossy = False  # responses were dropped, so later ones would not match the client's requests
        self.closed = False
        broker = socket.socket()
        self._sockets = (client, broker)
        for each in self._sockets:
            each.settimeout(0)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        broker.connect_ex((HOST, link.target))  # if refused, the first read or write fails
        self.pipes = (
            Pipe(self, "requests", client, broker, bytes),
            Pipe(self, "responses", broker, client, Rewriter(link.addresses).feed),
        )

    def reset(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.close()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.link.connections.remove(self)
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
        transform: Callable[[bytes], bytes],
    ) -> None:
        self.done = False
        self._connection = connection
        self._link = connection.link
        self._direction: Direction = direction
        self._source = source
        self._sink = sink
        self._transform = transform
        self._queue: deque[tuple[float, memoryview]] = deque()
        self._queued = 0
        self._ended = False

    def pending(self, now: float) -> Pending:
        if not self._ended and self._queued < self._link.queue_limit:
            yield self._source, select.POLLIN, self._read
        if self._queue and self._queue[0][0] <= now and self._link.budget(self._direction, now) >= 1:
            yield self._sink, select.POLLOUT, lambda: self.write(time.monotonic())

    def next_time(self, now: float) -> float:
        if not self._queue:
            return _INFINITE
        due = max(self._queue[0][0], self._link.budget_time(self._direction, now))
        return due if due > now else _INFINITE  # if due, only its sink holds it up

    def _read(self) -> None:
        if self._connection.closed:
            return
        try:
            data = self._source.recv(int(min(_CHUNK, max(1, self._link.queue_limit - self._queued))))
        except BlockingIOError:
            return
        except OSError:
            self._connection.reset()
            return
        now = time.monotonic()
        if not data:
            self._ended = True
        elif transformed := self._transform(data):
            self._queue.append((now + self._link.one_way(), memoryview(transformed)))
            self._queued += len(transformed)
        self.write(now)

    def write(self, now: float) -> None:
        """Forwards as much as the link and the sink allow now."""
        if self._connection.closed:
            return
        if self._link.drops_responses and self._direction == "responses" and self._queue:
            self._connection.lossy = True
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
            allowed = min(len(data), self._link.budget(self._direction, now))
            if allowed < 1:
                return
            sent = self._sink.send(data[: int(min(allowed, self._link.cut_after.get(self._direction, allowed)))])
            self._queued -= sent
            if sent < len(data):
                self._queue[0] = (due, data[sent:])
            else:
                self._queue.popleft()
            if not self._link.count(self._direction, sent):
                self._connection.reset()
                return
        if self._ended and not self._queue and not self.done:
            self.done = True
            self._sink.shutdown(socket.SHUT_WR)
            self._connection.close_if_done()


class Rewriter:
    """Replaces broker addresses by the proxy's in a stream of responses. The new addresses have the same length."""

    def __init__(self, addresses: Mapping[bytes, bytes]) -> None:
        self._addresses = addresses
        self._tail = max(map(len, addresses), default=1) - 1
        self._held = b""
        self._left = 0  # bytes of the current response that are not forwarded yet

    def feed(self, data: bytes) -> bytes:
        """What can be forwarded now. The end of an incomplete response is held back: it may contain half an address."""
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
