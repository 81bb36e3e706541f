"""The blocking client: unreachable brokers, and ports that are not Kafka listeners."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.ports import free_port
from lab.waiting import until
from twinlog.config import load
from twinlog.errors import ProtocolError, RefusedError, UnreachableError
from twinlog.kafka.client import EARLIEST, LATEST, Client
from twinlog.kafka.records import encode
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
    """A port that sends the same bytes to every connection, and nothing more."""
    listeners: list[socket.socket] = []
    connections: list[socket.socket] = []

    def serve(listener: socket.socket, sent: bytes) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connections.append(connection)
                connection.sendall(sent)

    def speak(sent: bytes) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=serve, args=(listener, sent), daemon=True).start()
        return int(listener.getsockname()[1])

    yield speak
    for each in listeners:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
    for each in (*listeners, *connections):
        each.close()


def test_connection_refused(client: MakeClient) -> None:
    port = free_port()
    with pytest.raises(UnreachableError, match=rf"127\.0\.0\.1:{port}.*us\.bootstrap\.servers"):
        client(f"127.0.0.1:{port}").metadata(None)


@pytest.mark.parametrize(
    "sent", [b"HTTP/1.1 400 Bad Request\r\n\r\n", struct.pack(">i", -7), struct.pack(">i", 1 << 30)]
)
def test_port_that_is_not_a_broker(client: MakeClient, speaker: Callable[[bytes], int], sent: bytes) -> None:
    with pytest.raises(UnreachableError, match="Kafka listener"):
        client(f"127.0.0.1:{speaker(sent)}").metadata(None)


def test_malformed_response(client: MakeClient, speaker: Callable[[bytes], int]) -> None:
    frame = struct.pack(">i", 12) + struct.pack(">ihi", 1, 0, 1 << 20) + b"xx"
    with pytest.raises((UnreachableError, ProtocolError)):
        client(f"127.0.0.1:{speaker(frame)}").metadata(None)


@pytest.mark.broker
def test_one_bootstrap_server_is_enough(us: Cluster, client: MakeClient) -> None:
    assert client(f"127.0.0.1:{free_port()},{us.bootstrap()}").metadata([]).brokers


@pytest.mark.broker
def test_silent_bootstrap_server_costs_at_most_the_request_timeout(
    us: Cluster, client: MakeClient, speaker: Callable[[bytes], int]
) -> None:
    began = time.monotonic()
    assert client(f"127.0.0.1:{speaker(b'')},{us.bootstrap()}").metadata([]).brokers
    assert time.monotonic() - began < 5


@pytest.mark.broker
def test_requests(us: Cluster, client: MakeClient, topic: str) -> None:
    us.create_topic(topic, 2)
    cluster = client(us.bootstrap())
    tps = [TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition("nowhere", 0)]
    info = cluster.metadata([topic, "nowhere"]).topics
    assert sorted(info[topic].leaders) == [0, 1]
    assert info["nowhere"].error == 3
    until(lambda: not cluster.list_offsets(tps[:2], LATEST)[1], "leading")
    assert cluster.append(tps[0], encode([(1, b"k", b"v", ())])) == 0
    assert cluster.append(tps[0], encode([(1, b"k", b"v", ())])) == 1
    found, failed = cluster.list_offsets(tps, LATEST)
    assert found == {tps[0]: 2, tps[1]: 0}
    assert list(failed) == [tps[2]]
    assert cluster.list_offsets(tps[:1], EARLIEST)[0] == {tps[0]: 0}
    assert cluster.read(tps[0], 0).high_watermark == 2
    assert cluster.read(tps[0], 9).error_code == 1
    with pytest.raises(RefusedError, match="nowhere"):
        cluster.append(tps[2], encode([(1, b"k", b"v", ())]))
    assert cluster.init_producer() != cluster.init_producer()
