"""The client for the rarer questions, against brokers that are away, deaf, or no brokers at all."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from twinlog.config import load
from twinlog.errors import ProtocolError, RefusedError, UnreachableError
from twinlog.kafka.client import EARLIEST, LATEST, Client
from twinlog.kafka.records import encode
from twinlog.lab.cluster import Cluster
from twinlog.lab.ports import free_port
from twinlog.lab.waiting import until
from twinlog.model import TopicPartition

MakeClient = Callable[[str], Client]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[MakeClient]:
    made: list[Client] = []

    def make(servers: str) -> Client:
        file = tmp_path / "mm2.properties"
        file.write_text(
            f"clusters=us,eu\nus.bootstrap.servers={servers}\neu.bootstrap.servers=h:1\nus->eu.enabled=true\n"
            "us.consumer.request.timeout.ms=1500\n"
        )
        flow = next(flow for flow in load([file]).flows if flow.replicates)
        assert flow.source is not None
        made.append(Client("us", flow.source.clients["source.consumer"]))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def speaker() -> Iterator[Callable[[bytes], int]]:
    """A port that says the same to everyone who comes, and then nothing more."""
    doors: list[socket.socket] = []
    guests: list[socket.socket] = []

    def serve(door: socket.socket, words: bytes) -> None:
        with suppress(OSError):
            while True:
                guest, _ = door.accept()
                guests.append(guest)
                guest.sendall(words)

    def speak(words: bytes) -> int:
        door = socket.create_server(("127.0.0.1", 0))
        doors.append(door)
        threading.Thread(target=serve, args=(door, words), daemon=True).start()
        return int(door.getsockname()[1])

    yield speak
    for each in doors:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
    for each in (*doors, *guests):
        each.close()


def test_nobody_is_there(client: MakeClient) -> None:
    port = free_port()
    with pytest.raises(UnreachableError, match=rf"127\.0\.0\.1:{port}.*us\.bootstrap\.servers"):
        client(f"127.0.0.1:{port}").metadata(None)


@pytest.mark.parametrize(
    "words", [b"HTTP/1.1 400 Bad Request\r\n\r\n", struct.pack(">i", -7), struct.pack(">i", 1 << 30)]
)
def test_whoever_is_there_is_no_broker(client: MakeClient, speaker: Callable[[bytes], int], words: bytes) -> None:
    with pytest.raises(UnreachableError, match="Kafka listener"):
        client(f"127.0.0.1:{speaker(words)}").metadata(None)


def test_an_answer_that_makes_no_sense(client: MakeClient, speaker: Callable[[bytes], int]) -> None:
    frame = struct.pack(">i", 12) + struct.pack(">ihi", 1, 0, 1 << 20) + b"xx"
    with pytest.raises((UnreachableError, ProtocolError)):
        client(f"127.0.0.1:{speaker(frame)}").metadata(None)


@pytest.mark.broker
def test_one_bootstrap_server_is_enough(us: Cluster, client: MakeClient) -> None:
    assert client(f"127.0.0.1:{free_port()},{us.bootstrap()}").metadata([]).brokers


@pytest.mark.broker
def test_a_deaf_bootstrap_server_is_not_waited_for_longer_than_a_request_may_take(
    us: Cluster, client: MakeClient, speaker: Callable[[bytes], int]
) -> None:
    began = time.monotonic()
    assert client(f"127.0.0.1:{speaker(b'')},{us.bootstrap()}").metadata([]).brokers
    assert time.monotonic() - began < 5


@pytest.mark.broker
def test_questions_and_answers(us: Cluster, client: MakeClient, topic: str) -> None:
    us.create_topic(topic, 2)
    asked = client(us.bootstrap())
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition("nowhere", 0)]
    info = asked.metadata([topic, "nowhere"]).topics
    assert sorted(info[topic].leaders) == [0, 1]
    assert info["nowhere"].error == 3
    until(lambda: not asked.list_offsets(places[:2], LATEST)[1], "leading")
    assert asked.append(places[0], encode([(1, b"k", b"v", ())])) == 0
    assert asked.append(places[0], encode([(1, b"k", b"v", ())])) == 1
    found, failed = asked.list_offsets(places, LATEST)
    assert found == {places[0]: 2, places[1]: 0}
    assert list(failed) == [places[2]]
    assert asked.list_offsets(places[:1], EARLIEST)[0] == {places[0]: 0}
    assert asked.read(places[0], 0).high_watermark == 2
    assert asked.read(places[0], 9).error_code == 1
    with pytest.raises(RefusedError, match="nowhere"):
        asked.append(places[2], encode([(1, b"k", b"v", ())]))
    assert asked.init_producer() != asked.init_producer()
