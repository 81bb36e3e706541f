"""Frames on a non-blocking socket, split at any point."""

import random
import select
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from twinlog.errors import ProtocolError
from twinlog.kafka.connection import MAX_FRAME_BYTES, Connection, Pool


@pytest.fixture
def pair() -> Iterator[tuple[Connection, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(0)
    connection = Connection(ours, Pool(max_idle=1 << 20))
    yield connection, theirs
    connection.close()
    theirs.close()


def _frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _exactly(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += sock.recv(size - len(found))
    return found


def test_parts_arrive_as_one_frame(pair: tuple[Connection, socket.socket]) -> None:
    connection, broker = pair
    connection.send([b"head", memoryview(b"batch"), bytearray(b"tail")], "token")
    assert _exactly(broker, 17) == _frame(b"headbatchtail")
    assert not connection.unsent


def test_unsent_data_is_queued_in_order(pair: tuple[Connection, socket.socket]) -> None:
    connection, broker = pair
    bodies = [random.Random(number).randbytes(300_000) for number in range(6)]
    for number, body in enumerate(bodies):
        connection.send([body[:7], body[7:]], number)
    assert connection.unsent
    expected = b"".join(map(_frame, bodies))
    found = b""
    while len(found) < len(expected):
        found += broker.recv(50_000)
        connection.flush()
    assert found == expected
    assert not connection.unsent


@pytest.mark.parametrize("step", [1, 3, 1000, 65_536, 1 << 20])
def test_responses_are_complete_however_they_are_split(pair: tuple[Connection, socket.socket], step: int) -> None:
    connection, broker = pair
    sizes = [4, 5, 100, 65_531, 65_532, 65_533, 70_000, 4, 200_000] if step > 3 else [4, 70_000, 5]
    bodies = [random.Random(size).randbytes(size) for size in sizes]
    for number, body in enumerate(bodies):
        connection.send([b"head" + body[:4]], number)  # an answer begins with its request's correlation id
    stream = b"".join(map(_frame, bodies))

    def speak() -> None:
        for at in range(0, len(stream), step):
            broker.sendall(stream[at : at + step])

    speaker = threading.Thread(target=speak)
    speaker.start()
    found: list[tuple[Any, bytes]] = []
    while len(found) < len(bodies):
        select.select([connection], [], [], 10)
        for token, buffer in connection.receive():
            found.append((token, bytes(buffer.view)))
            buffer.release()
    speaker.join()
    assert found == list(enumerate(bodies))
    assert not connection.waiting


@pytest.mark.parametrize("size", [-1, 0, 3, MAX_FRAME_BYTES + 1, 0x48545450])
def test_invalid_sizes_are_rejected(pair: tuple[Connection, socket.socket], size: int) -> None:
    connection, broker = pair
    connection.send([b""], "token")
    broker.sendall(struct.pack(">i", size) + b"rest")
    with pytest.raises(ProtocolError, match="Kafka listener"):
        connection.receive()


def test_response_without_a_request_is_rejected(pair: tuple[Connection, socket.socket]) -> None:
    connection, broker = pair
    broker.sendall(_frame(b"hello"))
    with pytest.raises(ProtocolError):
        connection.receive()


def test_correlation_id_mismatch_is_rejected(pair: tuple[Connection, socket.socket]) -> None:
    connection, broker = pair
    connection.send([struct.pack(">hhi", 1, 12, 7), b"body"], "token")
    broker.sendall(_frame(struct.pack(">i", 8) + b"rest"))
    with pytest.raises(ProtocolError, match="correlation id mismatch"):
        connection.receive()


def test_smaller_limit_of_response_size() -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(0)
    connection = Connection(ours, Pool(max_idle=1 << 20), largest=1000)
    connection.send([b"head\0\0\0\1"], "token")
    theirs.sendall(struct.pack(">i", 1001))
    with pytest.raises(ProtocolError, match="1001 bytes"):
        connection.receive()
    connection.close()
    theirs.close()


def test_connection_closed_by_the_broker(pair: tuple[Connection, socket.socket]) -> None:
    connection, broker = pair
    broker.close()
    with pytest.raises(ConnectionResetError):
        connection.receive()
    with pytest.raises(OSError):  # noqa: PT011
        connection.send([b"x"], "token")


def test_memory_is_reused_after_the_last_release() -> None:
    pool = Pool(max_idle=1 << 20)
    first = pool.take(100_000)
    first.hold()
    first.release()
    assert pool.take(100_000).memory is not first.memory
    first.release()
    again = pool.take(90_000)
    assert again.memory is first.memory
    assert len(again.view) == 90_000


def test_idle_memory_has_a_limit() -> None:
    pool = Pool(max_idle=1 << 20)
    for buffer in [pool.take(400_000) for _ in range(10)]:
        buffer.release()
    assert sum(len(memory) for memory in pool._idle) <= 1 << 20


def test_complete_responses_are_returned_before_the_close_is_reported(
    pair: tuple[Connection, socket.socket],
) -> None:
    """Else their memory would never be released. Under TLS a connection is read until it is empty."""
    connection, broker = pair
    connection._plain = False
    connection.send([b"\0\0\0\0\0\0\0\1"], "token")
    body = b"\0\0\0\1" + bytes(100_000)
    broker.sendall(_frame(body))
    broker.close()
    found: list[Any] = []
    while not found:
        found = connection.receive()
    ((token, buffer),) = found
    assert (token, len(buffer.view)) == ("token", len(body))
    buffer.release()
    assert connection._pool.in_use == 0
    with pytest.raises(OSError, match="closed"):
        connection.receive()


def test_nothing_to_detach(pair: tuple[Connection, socket.socket]) -> None:
    connection, _ = pair
    connection.detach()
    assert not connection.unsent
    assert not connection.flush()


def test_the_last_byte_can_be_withheld(pair: tuple[Connection, socket.socket]) -> None:
    connection, broker = pair
    connection.send([b"\0\0\0\0\0\0\0\x07", memoryview(b"records")], "token", withhold_last_byte=True)
    assert broker.recv(100) == b"\0\0\0\x0f\0\0\0\0\0\0\0\x07record"
    assert not connection.unsent
    connection.complete()
    assert broker.recv(100) == b"s"
    assert list(connection.waiting) == ["token"]
