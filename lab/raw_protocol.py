"""Kafka's protocol over a plaintext socket: fetches batches as they are stored, and produces unusual ones.

Kafka's clients decode what they fetch and do not send invalid batches. The API versions used here are the newest
without tagged fields; brokers of 2.3 and later support them.
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

from lab import batches
from lab.batches import Header
from lab.errors import LabError

T = TypeVar("T")
Isolation = Literal["read_committed", "read_uncommitted"]

_PRODUCE, _FETCH, _OFFSETS, _METADATA = (0, 8), (1, 11), (2, 2), (3, 4)
_UNKNOWN_TOPIC = 3
_EARLIEST, _LATEST = -2, -1
_LEADER_SECONDS = 10.0
_NO_LEADER_YET = {3, 5, 6}  # brokers learn of a new topic or a new leader one after the other
_SECONDS = 30.0
_FETCH_BYTES = 16 << 20


class BrokerError(LabError):
    """A broker responded with an error code."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        super().__init__(f"{what}: error code {code}{f': {message}' if message else ''}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Fetched:
    batches: bytes
    aborted: tuple[tuple[int, int], ...]  # producer id and first offset of aborted transactions


class RawProtocol:
    """One connection per broker, opened when first needed."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """`properties` are those of `Cluster.client_properties`."""
        if properties.get("security.protocol", "PLAINTEXT") != "PLAINTEXT":
            raise LabError("the raw protocol needs a PLAINTEXT listener: add one to the cluster's ClusterSpec")
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
        """Empty if the topic does not exist."""
        return sorted(self._leaders_of(topic))

    def produce(self, topic: str, partition: int, batch: bytes, transactional_id: str | None = None) -> int:
        """The batch's offset, once all in-sync replicas have it."""
        body = text_bytes(transactional_id) + struct.pack(">hii", -1, int(_SECONDS * 1000), 1) + text_bytes(topic)
        body += struct.pack(">iii", 1, partition, len(batch)) + batch
        return retry(lambda: self._produce(topic, partition, body), _NO_LEADER_YET)

    def _produce(self, topic: str, partition: int, body: bytes) -> int:
        response = self.send_to_leader(topic, partition, _PRODUCE, body)
        response.skip(4)
        response.text()
        response.skip(4)
        _, code, offset, _, _ = response.unpack(">ihqqq")
        for _ in range(response.unpack(">i")[0]):
            response.skip(4)
            response.text()
        message = response.text()
        if code:
            raise self._error(f"cannot produce to {topic}-{partition}", code, topic, message)
        return int(offset)

    def offsets(self, topic: str, partition: int, isolation: Isolation = "read_uncommitted") -> tuple[int, int]:
        """Start and end offset; with read_committed, the end is the last stable offset."""

        def offset(timestamp: int) -> int:
            body = struct.pack(">ibi", -1, isolation == "read_committed", 1) + text_bytes(topic)
            body += struct.pack(">iiq", 1, partition, timestamp)
            response = self.send_to_leader(topic, partition, _OFFSETS, body)
            response.skip(8)
            response.text()
            response.skip(4)
            _, code, _, offset = response.unpack(">ihqq")
            if code:
                raise self._error(f"cannot list offsets of {topic}-{partition}", code, topic)
            return offset

        start, end = (retry(partial(offset, timestamp), _NO_LEADER_YET) for timestamp in (_EARLIEST, _LATEST))
        return start, end

    def fetch(self, topic: str, partition: int, offset: int, isolation: Isolation = "read_uncommitted") -> Fetched:
        body = struct.pack(">iiiibii", -1, 500, 1, _FETCH_BYTES, isolation == "read_committed", 0, -1)
        body += struct.pack(">i", 1) + text_bytes(topic)
        body += struct.pack(">iiiqqi", 1, partition, -1, offset, -1, _FETCH_BYTES)
        response = self.send_to_leader(topic, partition, _FETCH, body + struct.pack(">i", 0) + text_bytes(""))
        _, code, _, topics = response.unpack(">ihii")
        count = 0
        if topics:
            response.text()
            _, _, code, _, _, _, count = response.unpack(">iihqqqi")
        if code:
            raise self._error(f"cannot fetch {topic}-{partition} from offset {offset}", code, topic)
        aborted = tuple(response.unpack(">qq") for _ in range(max(count, 0)))
        response.skip(8)
        return Fetched(response.rest(), tuple((int(producer), int(first)) for producer, first in aborted))

    def batches(self, topic: str, partition: int, isolation: Isolation = "read_uncommitted") -> Iterator[bytes]:
        """All batches from the log's start to its current end, including control batches.

        With read_committed, control batches and batches of aborted transactions are omitted, as in a consumer.
        """
        position, end = self.offsets(topic, partition, isolation)
        while position < end:
            fetched = retry(partial(self.fetch, topic, partition, position, isolation), _NO_LEADER_YET)
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
                # Compaction may have removed the log's last batches, so that there is nothing to fetch before its end.
                return

    def _leaders_of(self, topic: str) -> dict[int, tuple[str, int] | None]:
        body = struct.pack(">i", 1) + text_bytes(topic) + b"\x00"  # without auto-creation of the topic
        response = self.send_any(_METADATA, body)
        response.skip(4)
        addresses = {}
        for _ in range(response.unpack(">i")[0]):
            (node,) = response.unpack(">i")
            host = response.text() or ""
            (port,) = response.unpack(">i")
            response.text()
            addresses[node] = (host, port)
        response.text()
        response.skip(8)
        (code,) = response.unpack(">h")
        if code == _UNKNOWN_TOPIC:
            return {}
        if code:
            raise BrokerError(f"cannot get metadata of {topic}", code)
        response.text()
        response.skip(1)
        leaders = {}
        for _ in range(response.unpack(">i")[0]):
            _, partition, leader = response.unpack(">hii")
            for _ in range(2):
                response.skip(4 * response.unpack(">i")[0])
            leaders[partition] = addresses.get(leader)
        return leaders

    def _error(self, what: str, code: int, topic: str, message: str | None = None) -> BrokerError:
        if code in _NO_LEADER_YET:
            self._leaders.pop(topic, None)
        return BrokerError(what, code, message)

    def send_to_leader(self, topic: str, partition: int, api: tuple[int, int], body: bytes) -> "Response":
        # Brokers learn of new partitions and their leaders with a delay.
        deadline = time.monotonic() + _LEADER_SECONDS
        while (leader := self._leaders.get(topic, {}).get(partition)) is None:
            self._leaders[topic] = self._leaders_of(topic)
            if self._leaders[topic].get(partition) is not None:
                continue
            if not self._leaders[topic] or time.monotonic() > deadline:
                raise LabError(f"{topic}-{partition} does not exist, or has no leader")
            time.sleep(0.1)
        return self.send(leader, api, body)

    def send_any(self, api: tuple[int, int], body: bytes) -> "Response":
        for address in self._bootstrap[:-1]:
            with suppress(LabError):  # the broker is down: try the next one
                return self.send(address, api, body)
        return self.send(self._bootstrap[-1], api, body)

    def send(self, address: tuple[str, int], api: tuple[int, int], body: bytes) -> "Response":
        try:
            if address not in self._open:
                self._open[address] = socket.create_connection(address, _SECONDS)
            connection = self._open[address]
            request = struct.pack(">hhi", *api, 1) + text_bytes("lab") + body
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _receive(connection, 4))
            return Response(_receive(connection, size))
        except OSError as error:
            if lost := self._open.pop(address, None):
                lost.close()
            raise LabError(f"broker {address[0]}:{address[1]}: {error}") from error


def retry(step: Callable[[], T], codes: Collection[int]) -> T:
    """Repeats a step while it fails with one of these error codes."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            return step()
        except BrokerError as error:
            if error.code not in codes or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


class Response:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 4  # after the correlation id

    def unpack(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self._data, self._position)
        self._position += struct.calcsize(layout)
        return values

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
            raise ConnectionError("connection closed by the broker")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
