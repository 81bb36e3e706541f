"""One socket to one broker: whole frames out, whole frames in, no byte copied that need not be.

A frame that fits into the scratch buffer costs one system call. A larger one is received straight into a buffer of the
pool, in which its record batches stay until the target has them.
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
LARGEST_FRAME: Final = 256 * 1024 * 1024  # a broker that announces more is broken, or not a broker
_LONGEST_THROTTLE: Final = 300_000  # milliseconds


def throttle_time(told: int) -> int:
    """For how many milliseconds a broker's wish for silence is obeyed: it may be broken, and ask for weeks."""
    return min(max(told, 0), _LONGEST_THROTTLE)


class Buffer:
    """Memory that is lent out: `hold` for each batch in it that is on its way, `release` when it has arrived."""

    __slots__ = ("_pool", "_uses", "memory", "view")

    def __init__(self, memory: bytearray, size: int, pool: "Pool | None") -> None:
        self.memory = memory
        self.view = memoryview(memory)[:size]
        self._pool = pool
        self._uses = 1

    def hold(self) -> None:
        self._uses += 1

    def release(self) -> None:
        self._uses -= 1
        if not self._uses and self._pool is not None:
            self._pool.give_back(self.memory)
            self._pool = None


class Pool:
    """Buffers that are used again: fresh memory costs a page fault for each 4 KiB that is written."""

    def __init__(self, keep: int) -> None:
        self._keep = keep  # bytes that may lie idle
        self._idle: list[bytearray] = []
        self._idle_bytes = 0

    def take(self, size: int) -> Buffer:
        fits = [at for at, memory in enumerate(self._idle) if len(memory) >= size]
        if fits:
            memory = self._idle.pop(min(fits, key=lambda at: len(self._idle[at])))
            self._idle_bytes -= len(memory)
        else:
            # Answers differ by a little, so their room is rounded up by much: else hardly one would fit again.
            memory = bytearray(1 << (size - 1).bit_length() if size < _LARGE else -(-size // _LARGE) * _LARGE)
        return Buffer(memory, size, self)

    def give_back(self, memory: bytearray) -> None:
        self._idle.append(memory)
        self._idle_bytes += len(memory)
        while self._idle_bytes > self._keep:
            self._idle_bytes -= len(self._idle.pop(0))


class Connection:
    """Answers come in the order of the requests, so each request's token waits in a queue for its answer."""

    def __init__(self, sock: socket.socket, pool: Pool, largest: int = LARGEST_FRAME) -> None:
        """`largest`: bytes of an answer."""
        self.sock = sock
        self.correlation = 0
        self.waiting: deque[Any] = deque()  # tokens of requests that are not answered yet
        self._ids: deque[bytes] = deque()  # their correlation ids
        self._largest = largest
        self._pool = pool
        self._out: deque[memoryview] = deque()
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

    def send(self, parts: Sequence[bytes | bytearray | memoryview], token: Any) -> None:
        """`parts` together are one frame without its size. Sends what the socket takes now, keeps the rest."""
        self.waiting.append(token)
        self._ids.append(bytes(parts[0][4:8]))
        size = sum(map(len, parts))
        frame = [_SIZE.pack(size), *parts]
        sent = 0
        if self._plain and not self._out and len(frame) <= _IOV_MAX:
            with contextlib.suppress(BlockingIOError):
                sent = self.sock.sendmsg(frame)
            if sent == size + 4:  # nearly always: then nothing is left to keep
                return
        if not self._plain and size < _SCRATCH:  # each part would be a TLS record of its own
            frame = [b"".join(frame)]
        self._out.extend(memoryview(part) for part in frame if part)  # an empty one would never be sent
        self._sent(sent)
        self.flush()

    @property
    def unsent(self) -> bool:
        return bool(self._out)

    def flush(self) -> None:
        """Raises OSError when the connection is gone."""
        out = self._out
        while out:
            try:
                sent = self.sock.sendmsg(islice(out, _IOV_MAX)) if self._plain else self.sock.send(out[0])
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return
            self._sent(sent)

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
        """The answers that are complete by now, each with its request's token. OSError when the other side is gone."""
        answers: list[tuple[Any, Buffer]] = []
        while True:
            try:
                if self._large is not None:
                    got = self.sock.recv_into(self._large.view[self._filled :])
                else:
                    got = self.sock.recv_into(self._scratch[self._have :])
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return answers
            if not got:
                raise ConnectionResetError("the broker closed the connection")
            if self._large is not None:
                self._filled += got
                if self._filled == len(self._large.view):
                    answers.append((self._token(self._large.view), self._large))
                    self._large = None
                    if self._plain:
                        return answers
                continue
            self._have += got
            full = self._have == _SCRATCH
            self._frames(answers)
            if not full and self._plain and self._large is None:
                return answers  # the socket is empty: the next call would only say so

    def _frames(self, answers: list[tuple[Any, Buffer]]) -> None:
        at, have, scratch = 0, self._have, self._scratch
        while have - at >= 4:
            (size,) = _SIZE.unpack_from(scratch, at)
            if not 4 <= size <= self._largest:
                raise ProtocolError(f"the broker announces an answer of {size} bytes: is this port a Kafka listener?")
            if have - at - 4 >= size:
                buffer = Buffer(bytearray(scratch[at + 4 : at + 4 + size]), size, None)
                answers.append((self._token(buffer.view), buffer))
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

    def _token(self, answer: memoryview) -> Any:
        if not self.waiting:
            raise ProtocolError("the broker sent an answer that nobody asked for")
        if answer[:4] != self._ids.popleft():
            raise ProtocolError("the broker sent an answer to another question")
        return self.waiting.popleft()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.close()
        self._out.clear()
        if self._large is not None:
            self._large.release()
            self._large = None
