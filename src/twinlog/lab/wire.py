"""Asks brokers in Kafka's own words over a plaintext socket: for batches as they are stored, and to take odd ones.

Kafka's clients unpack what they fetch and refuse to send what is odd. The versions used here are the newest without
tagged fields, which brokers of 2.3 and later speak.
"""

import socket
import struct
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Literal, Self, TypeVar

from twinlog.errors import LabError
from twinlog.lab import batches
from twinlog.lab.batches import Header

T = TypeVar("T")
Isolation = Literal["read_committed", "read_uncommitted"]

_PRODUCE, _FETCH, _OFFSETS, _METADATA = (0, 8), (1, 11), (2, 2), (3, 4)
_NO_SUCH_TOPIC = 3
_EARLIEST, _LATEST = -2, -1
_LEADER_SECONDS = 10.0
_NO_LEADER_YET = {3, 5, 6}  # brokers hear of a new topic or a new leader one after the other
_SECONDS = 30.0
_AT_ONCE = 16 << 20


class RefusedError(LabError):
    """A broker's answer was an error; `code` is Kafka's number for it."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        super().__init__(f"{what}: refused with error {code}{f': {message}' if message else ''}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Fetched:
    batches: bytes
    aborted: tuple[tuple[int, int], ...]  # producer id and first offset of transactions that were taken back


class Wire:
    """A connection to every broker that is asked, opened when first needed."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """`properties` as `Cluster.client_properties` gives them."""
        if properties.get("security.protocol", "PLAINTEXT") != "PLAINTEXT":
            raise LabError("raw batches are read and written through a plaintext listener: give the cluster one")
        self._bootstrap = [_address(each) for each in properties["bootstrap.servers"].split(",")]
        self._open: dict[tuple[str, int], socket.socket] = {}
        self._leaders: dict[str, dict[int, tuple[str, int] | None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    def partitions(self, topic: str) -> list[int]:
        """None, where there is no such topic."""
        return sorted(self._leaders_of(topic))

    def produce(self, topic: str, partition: int, batch: bytes, transactional_id: str | None = None) -> int:
        """Offset of the batch, once all replicas that are in sync have it."""
        body = text_bytes(transactional_id) + struct.pack(">hii", -1, int(_SECONDS * 1000), 1) + text_bytes(topic)
        body += struct.pack(">iii", 1, partition, len(batch)) + batch
        return again(lambda: self._produce(topic, partition, body), _NO_LEADER_YET)

    def _produce(self, topic: str, partition: int, body: bytes) -> int:
        answer = self.ask_leader(topic, partition, _PRODUCE, body)
        answer.skip(4)
        answer.text()
        answer.skip(4)
        _, code, offset, _, _ = answer.unpack(">ihqqq")
        for _ in range(answer.unpack(">i")[0]):
            answer.skip(4)
            answer.text()
        message = answer.text()
        if code:
            raise self._refused(f"producing to {topic}-{partition}", code, topic, message)
        return int(offset)

    def offsets(self, topic: str, partition: int, isolation: Isolation = "read_uncommitted") -> tuple[int, int]:
        """Of the first record and behind the last one; committed is what stands before any open transaction."""

        def offset(timestamp: int) -> int:
            body = struct.pack(">ibi", -1, isolation == "read_committed", 1) + text_bytes(topic)
            answer = self.ask_leader(topic, partition, _OFFSETS, body + struct.pack(">iiq", 1, partition, timestamp))
            answer.skip(8)
            answer.text()
            answer.skip(4)
            _, code, _, offset = answer.unpack(">ihqq")
            if code:
                raise self._refused(f"asking for the offsets of {topic}-{partition}", code, topic)
            return offset

        start, end = (again(partial(offset, timestamp), _NO_LEADER_YET) for timestamp in (_EARLIEST, _LATEST))
        return start, end

    def fetch(self, topic: str, partition: int, offset: int, isolation: Isolation = "read_uncommitted") -> Fetched:
        body = struct.pack(">iiiibii", -1, 500, 1, _AT_ONCE, isolation == "read_committed", 0, -1)
        body += (
            struct.pack(">i", 1) + text_bytes(topic) + struct.pack(">iiiqqi", 1, partition, -1, offset, -1, _AT_ONCE)
        )
        answer = self.ask_leader(topic, partition, _FETCH, body + struct.pack(">i", 0) + text_bytes(""))
        _, code, _, topics = answer.unpack(">ihii")
        count = 0
        if topics:
            answer.text()
            _, _, code, _, _, _, count = answer.unpack(">iihqqqi")
        if code:
            raise self._refused(f"fetching {topic}-{partition} from {offset}", code, topic)
        aborted = tuple(answer.unpack(">qq") for _ in range(max(count, 0)))
        answer.skip(8)
        return Fetched(answer.rest(), tuple((int(producer), int(first)) for producer, first in aborted))

    def batches(self, topic: str, partition: int, isolation: Isolation = "read_uncommitted") -> Iterator[bytes]:
        """Every batch from the log's start to where its end was when asked, markers of transactions among them.

        With read_committed, batches of aborted transactions and markers are left out, as consumers leave them out.
        """
        position, end = self.offsets(topic, partition, isolation)
        while position < end:
            fetched = again(partial(self.fetch, topic, partition, position, isolation), _NO_LEADER_YET)
            started = sorted(fetched.aborted, key=lambda each: each[1])
            aborting: set[int] = set()
            before = position
            for batch in batches.split(fetched.batches):
                header = Header.of(batch)
                if header.base_offset >= end:
                    return
                position = header.last_offset + 1
                if isolation == "read_uncommitted":
                    yield batch
                    continue
                while started and started[0][1] <= header.last_offset:
                    aborting.add(started.pop(0)[0])
                if header.control:
                    if batches.is_abort(batch):
                        aborting.discard(header.producer_id)
                elif not (header.transactional and header.producer_id in aborting):
                    yield batch
            if position == before:
                # Compaction may take the log's last batches away, and then nothing is left to fetch before its end.
                return

    def _leaders_of(self, topic: str) -> dict[int, tuple[str, int] | None]:
        body = struct.pack(">i", 1) + text_bytes(topic) + b"\x00"  # a topic that is not there shall stay so
        answer = self.ask_any(_METADATA, body)
        answer.skip(4)
        addresses = {}
        for _ in range(answer.unpack(">i")[0]):
            (node,) = answer.unpack(">i")
            host = answer.text() or ""
            (port,) = answer.unpack(">i")
            answer.text()
            addresses[node] = (host, port)
        answer.text()
        answer.skip(8)
        (code,) = answer.unpack(">h")
        if code == _NO_SUCH_TOPIC:
            return {}
        if code:
            raise RefusedError(f"asking who leads {topic}", code)
        answer.text()
        answer.skip(1)
        found = {}
        for _ in range(answer.unpack(">i")[0]):
            _, partition, leader = answer.unpack(">hii")
            for _ in range(2):
                answer.skip(4 * answer.unpack(">i")[0])
            found[partition] = addresses.get(leader)
        return found

    def _refused(self, what: str, code: int, topic: str, message: str | None = None) -> RefusedError:
        if code in _NO_LEADER_YET:
            self._leaders.pop(topic, None)
        return RefusedError(what, code, message)

    def ask_leader(self, topic: str, partition: int, api: tuple[int, int], body: bytes) -> "Answer":
        # A broker hears of new partitions, and of their leaders, a moment after whoever made them.
        deadline = time.monotonic() + _LEADER_SECONDS
        while (leader := self._leaders.get(topic, {}).get(partition)) is None:
            self._leaders[topic] = self._leaders_of(topic)
            if self._leaders[topic].get(partition) is not None:
                continue
            if not self._leaders[topic] or time.monotonic() > deadline:
                raise LabError(f"{topic}-{partition} has no leader, or is not there")
            time.sleep(0.1)
        return self.ask(leader, api, body)

    def ask_any(self, api: tuple[int, int], body: bytes) -> "Answer":
        for address in self._bootstrap[:-1]:
            with suppress(LabError):  # a broker that is down: another one may know
                return self.ask(address, api, body)
        return self.ask(self._bootstrap[-1], api, body)

    def ask(self, address: tuple[str, int], api: tuple[int, int], body: bytes) -> "Answer":
        try:
            if address not in self._open:
                self._open[address] = socket.create_connection(address, _SECONDS)
            connection = self._open[address]
            request = struct.pack(">hhi", *api, 1) + text_bytes("lab") + body
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _receive(connection, 4))
            return Answer(_receive(connection, size))
        except OSError as error:
            if lost := self._open.pop(address, None):
                lost.close()
            raise LabError(f"asking {address[0]}:{address[1]}: {error}") from error


def again(step: Callable[[], T], passing: Collection[int]) -> T:
    """Repeats a step while it is refused for a reason that passes."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            return step()
        except RefusedError as error:
            if error.code not in passing or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


class Answer:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 4  # behind the correlation id

    def unpack(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self._data, self._position)
        self._position += struct.calcsize(form)
        return found

    def skip(self, count: int) -> None:
        self._position += count

    def text(self) -> str | None:
        (size,) = self.unpack(">h")
        if size < 0:
            return None
        self._position += size
        return self._data[self._position - size : self._position].decode()

    def rest(self) -> bytes:
        return self._data[self._position :]


def text_bytes(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else len(text.encode()).to_bytes(2) + text.encode()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    return host, int(port)


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionError("the broker hung up")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
