"""A non-blocking connection to a broker that sends and receives frames with as few copies as possible.

A frame that fits into the scratch buffer costs one system call. A larger one is received into a buffer of the pool, in
which its record batches remain until the target has acknowledged them.
"""

import contextlib
import socket
import ssl
import struct
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from twinlog.errors import ProtocolError

_SIZE: Final = struct.Struct(">i")
_SCRATCH: Final = 64 * 1024
_LARGE: Final = 8 << 20
_IOV_MAX: Final = 512  # buffers per system call; Linux allows 1,024
MAX_FRAME_BYTES: Final = 256 * 1024 * 1024  # a larger size is an error, or not from a broker
_LONGEST_THROTTLE: Final = 300_000  # milliseconds


def throttle_time(throttle_ms: int) -> int:
    """The milliseconds for which a broker's throttle time is respected: a faulty broker may demand weeks."""
    return min(max(throttle_ms, 0), _LONGEST_THROTTLE)


class Buffer:
    """Reference-counted memory: `hold` for each batch in it that is being sent, `release` when it is acknowledged."""

    __slots__ = ("_pool", "_uses", "memory", "view")

    def __init__(self, memory: bytearray, size: int, pool: "Pool | None") -> None:
        self.memory = memory
        self.view = memoryview(memory)[:size]
        self._pool = pool  # that it is returned to, if any
        self._uses = 1

    def hold(self) -> None:
        self._uses += 1

    def release(self) -> None:
        self._uses -= 1
        if not self._uses and self._pool is not None:
            self._pool.recycle(self.memory)
            self._pool = None


class Pool:
    """Reuses buffers: new memory costs a page fault for each 4 KiB that is written."""

    def __init__(self, max_idle: int) -> None:
        self._max_idle = max_idle  # bytes
        self._idle: list[bytearray] = []
        self._idle_bytes = 0
        self.in_use = 0  # bytes

    def take(self, size: int) -> Buffer:
        fits = [at for at, memory in enumerate(self._idle) if len(memory) >= size]
        if fits:
            memory = self._idle.pop(min(fits, key=lambda at: len(self._idle[at])))
            self._idle_bytes -= len(memory)
        else:
            # Rounded up: responses differ a little in size, and exact buffers could hardly be reused.
            memory = bytearray(1 << (size - 1).bit_length() if size < _LARGE else -(-size // _LARGE) * _LARGE)
        self.in_use += len(memory)
        return Buffer(memory, size, self)

    def copy(self, data: memoryview) -> Buffer:
        """A new buffer with a copy of `data`."""
        self.in_use += len(data)
        return Buffer(bytearray(data), len(data), self)

    def recycle(self, memory: bytearray) -> None:
        self.in_use -= len(memory)
        if len(memory) < _SCRATCH:  # cheaper to allocate than to search for
            return
        self._idle.append(memory)
        self._idle_bytes += len(memory)
        while self._idle_bytes > self._max_idle:
            self._idle_bytes -= len(self._idle.pop(0))


class Connection:
    """Responses arrive in the order of the requests, so the tokens of pending requests are kept in a queue."""

    def __init__(self, sock: socket.socket, pool: Pool, largest: int = MAX_FRAME_BYTES) -> None:
        """`largest`: bytes of a response."""
        self.sock = sock
        self.correlation = 0
        self.waiting: deque[Any] = deque()  # tokens of pending requests
        self._ids: deque[bytes] = deque()  # their correlation ids
        self._largest = largest
        self._pool = pool
        self._out: deque[memoryview] = deque()
        self._withheld = b""  # the last byte of the newest frame, until `complete`
        self._scratch = memoryview(bytearray(_SCRATCH))
        self._have = 0  # bytes in the scratch buffer
        self._large: Buffer | None = None  # a frame that is larger than the scratch buffer
        self._filled = 0
        self._plain = not isinstance(sock, ssl.SSLSocket)

    def fileno(self) -> int:
        return self.sock.fileno()

    def next_correlation(self) -> int:
        self.correlation = (self.correlation + 1) & 0x7FFFFFFF
        return self.correlation

    def send(
        self, parts: Sequence[bytes | bytearray | memoryview], token: Any, *, withhold_last_byte: bool = False
    ) -> None:
        """`parts` are one frame without its size. Sends what the socket accepts now, and queues the rest.

        Without its last byte a broker does not handle a request; nothing else may be sent until `complete`.
        """
        self.waiting.append(token)
        self._ids.append(bytes(parts[0][4:8]))
        size = sum(map(len, parts))
        frame = [_SIZE.pack(size), *parts]
        if withhold_last_byte:
            self._withheld = bytes(frame[-1][-1:])
            frame[-1] = memoryview(frame[-1])[:-1]
            size -= 1
        sent = 0
        if self._plain and not self._out and len(frame) <= _IOV_MAX:
            with contextlib.suppress(BlockingIOError):
                sent = self.sock.sendmsg(frame)
            if sent == size + 4:  # nearly always: nothing is left to queue
                return
        if not self._plain and size < _SCRATCH:  # else each part would be a separate TLS record
            frame = [b"".join(frame)]
        self._out.extend(memoryview(part) for part in frame if part)  # an empty part would never count as sent
        self._sent(sent)
        self.flush()

    def complete(self) -> None:
        """Sends the last byte of a frame. Raises OSError if the connection is lost."""
        self._out.append(memoryview(self._withheld))
        self._withheld = b""
        self.flush()

    @property
    def unsent(self) -> bool:
        return bool(self._out)

    def flush(self) -> bool:
        """Whether anything was sent. Raises OSError if the connection is lost."""
        out, some = self._out, False
        while out:
            try:
                sent = self.sock.sendmsg(islice(out, _IOV_MAX)) if self._plain else self.sock.send(out[0])
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return some
            some = True
            self._sent(sent)
        return some

    def _sent(self, count: int) -> None:
        out = self._out
        while count:
            first = out[0]
            if count >= len(first):
                count -= len(first)
                out.popleft()
            else:
                out[0] = first[count:]
                count = 0

    def receive(self) -> list[tuple[Any, Buffer]]:
        """The complete responses, each with its request's token. Raises OSError if the connection is lost."""
        responses: list[tuple[Any, Buffer]] = []
        while True:
            try:
                if self._large is not None:
                    got = self.sock.recv_into(self._large.view[self._filled :])
                else:
                    got = self.sock.recv_into(self._scratch[self._have :])
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return responses
            except OSError:
                if responses:  # these are complete: the next call raises
                    return responses
                raise
            if not got and responses:
                return responses
            if not got:
                raise ConnectionResetError("connection closed by the broker")
            if self._large is not None:
                self._filled += got
                if self._filled == len(self._large.view):
                    responses.append((self._take_token(self._large.view), self._large))
                    self._large = None
                    if self._plain:
                        return responses
                continue
            self._have += got
            full = self._have == _SCRATCH
            self._frames(responses)
            if not full and self._plain and self._large is None:
                return responses  # the socket is empty: save a system call

    def _frames(self, responses: list[tuple[Any, Buffer]]) -> None:
        at, have, scratch = 0, self._have, self._scratch
        while have - at >= 4:
            (size,) = _SIZE.unpack_from(scratch, at)
            if not 4 <= size <= self._largest:
                raise ProtocolError(f"response of {size} bytes", "check that the port is a Kafka listener")
            if have - at - 4 >= size:
                buffer = self._pool.copy(scratch[at + 4 : at + 4 + size])
                responses.append((self._take_token(buffer.view), buffer))
                at += 4 + size
            elif size > _SCRATCH - 4:
                self._large = self._pool.take(size)
                self._filled = have - at - 4
                self._large.view[: self._filled] = scratch[at + 4 : have]
                at = have
            else:
                break
        if at:
            scratch[: have - at] = bytes(scratch[at:have])
        self._have = have - at

    def _take_token(self, response: memoryview) -> Any:
        if not self.waiting:
            raise ProtocolError("unexpected response: no request is pending")
        if response[:4] != self._ids.popleft():
            raise ProtocolError("correlation id mismatch")
        return self.waiting.popleft()

    def detach(self) -> None:
        """Copies the unsent data, so that its buffers can be released."""
        if self._out:  # an empty part would never count as sent
            self._out = deque([memoryview(b"".join(self._out))])

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.close()
        self._out.clear()
        if self._large is not None:
            self._large.release()
            self._large = None
