"""The proxy's network faults, as seen by clients, which must not bypass the proxy."""

import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from lab import batches, kafka_tools
from lab.batches import Record
from lab.cluster import Cluster
from lab.errors import LabError
from lab.lab import Lab
from lab.listeners import SASL_PLAIN, TLS
from lab.proxy import Faults, Proxy
from lab.proxy_io import Rewriter
from lab.raw_protocol import RawProtocol
from lab.waiting import until

QUIET = {"log_level": 0}  # librdkafka logs the connections that are closed with the proxy
BATCH = batches.encode([Record(1_700_000_000_000, b"key", b"value")])


@pytest.fixture(scope="module")
def pair(lab: Lab) -> Iterator[Cluster]:
    cluster = lab.cluster("proxied", brokers=2)
    yield cluster
    lab.discard(cluster)


@pytest.fixture
def proxy(us: Cluster, topic: str) -> Iterator[Proxy]:
    """A proxy of a cluster with a topic without retention."""
    us.create_topic(topic, configs={"retention.ms": "-1"})
    with Proxy(us) as proxy:
        yield proxy


@pytest.fixture
def raw(proxy: Proxy) -> Iterator[RawProtocol]:
    """A client with one connection and one request at a time."""
    with RawProtocol(proxy.client_properties()) as raw:
        yield raw


def end(cluster: Cluster, topic: str) -> int:
    with RawProtocol(cluster.client_properties()) as direct:
        return direct.offsets(topic, 0)[1]


@pytest.mark.broker
@pytest.mark.slow
def test_a_client_does_not_bypass_the_proxy(pair: Cluster, topic: str) -> None:
    pair.create_topic(topic, partitions=2, replication_factor=1)
    with Proxy(pair) as proxy:
        addresses = set(proxy.bootstrap.split(","))
        known = AdminClient({**proxy.librdkafka_properties(), **QUIET}).list_topics(timeout=10).brokers
        assert {f"{each.host}:{each.port}" for each in known.values()} == addresses
        with KafkaAdminClient(bootstrap_servers=proxy.bootstrap.split(",")[0]) as admin:
            assert {f"{each['host']}:{each['port']}" for each in admin.describe_cluster()["brokers"]} == addresses
        producer = Producer({**proxy.librdkafka_properties(), **QUIET})
        for number in range(1000):
            producer.produce(topic, f"{number}".encode(), partition=number % 2)
        producer.flush(30)
        consumer = Consumer(
            {
                **proxy.librdkafka_properties(),
                "group.id": topic,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        found = sorted(int(each.value() or b"") for each in consumer.consume(1000, 30))
        consumer.close()
        assert found == list(range(1000))
        assert all(link.passed("responses") > 1000 for link in proxy.links)
        assert proxy.passed("responses") == sum(link.passed("responses") for link in proxy.links)


@pytest.mark.broker
@pytest.mark.slow
def test_a_java_client_does_not_bypass_the_proxy(pair: Cluster, topic: str) -> None:
    pair.create_topic(topic, partitions=2, replication_factor=1)
    noise = "".join(f"{random.Random(number).randbytes(500).hex()}\n" for number in range(200))
    with Proxy(pair) as proxy:
        kafka_tools.run(
            "console-producer", "--topic", topic, "--command-property", "compression.type=none",
            properties=proxy.client_properties(), stdin=noise,
        )  # fmt: skip
        assert proxy.passed("requests") > len(noise)
    with RawProtocol(pair.client_properties()) as raw:
        assert sum(raw.offsets(topic, partition)[1] for partition in (0, 1)) == 200


@pytest.mark.broker
@pytest.mark.slow
def test_the_new_leader_in_an_error_response_is_reached_through_the_proxy(pair: Cluster, topic: str) -> None:
    pair.create_topic(topic, replication_factor=2)
    pair.move_leader(topic, 0, to=0)
    with Proxy(pair) as proxy:
        producer = Producer({**proxy.librdkafka_properties(), **QUIET, "enable.idempotence": True})
        for leader in (0, 1):
            pair.move_leader(topic, 0, to=leader)
            before = proxy.links[leader].passed("requests")
            producer.produce(topic, bytes(200_000), partition=0)
            assert producer.flush(30) == 0
            assert proxy.links[leader].passed("requests") - before > 200_000


@pytest.mark.broker
@pytest.mark.slow
def test_the_link_to_one_broker_can_fail(pair: Cluster, topic: str) -> None:
    pair.create_topic(topic, partitions=2, replication_factor=1, configs={"retention.ms": "-1"})
    leaders = [pair.leader(topic, partition) for partition in (0, 1)]
    with Proxy(pair) as proxy, RawProtocol(proxy.client_properties()) as raw:
        assert sorted(leaders) == [0, 1]
        for partition in (0, 1):
            raw.produce(topic, partition, BATCH)
        proxy.links[leaders[1]].refuse()
        proxy.links[leaders[1]].cut()
        assert raw.produce(topic, 0, BATCH) == 1
        for _ in range(2):
            with pytest.raises(LabError):
                raw.produce(topic, 1, BATCH)
        proxy.links[leaders[1]].accept()
        assert raw.produce(topic, 1, BATCH) == 1


@pytest.mark.broker
def test_a_stalled_connection_resumes(us: Cluster, proxy: Proxy, raw: RawProtocol, topic: str) -> None:
    raw.produce(topic, 0, BATCH)
    proxy.stall()
    passed = proxy.passed("requests")
    with ThreadPoolExecutor(1) as pool:
        response = pool.submit(raw.produce, topic, 0, BATCH)
        time.sleep(0.3)
        assert (response.done(), proxy.connections, proxy.passed("requests")) == (False, 1, passed)
        assert end(us, topic) == 1
        with socket.create_connection(_address(proxy), 5):  # accepted, but stalled
            until(lambda: proxy.connections == 2, "waiting for the second connection")
        proxy.resume()
        assert response.result(20) == 1


@pytest.mark.broker
def test_a_cut_connection_is_reset_and_a_new_one_works(proxy: Proxy, raw: RawProtocol, topic: str) -> None:
    raw.produce(topic, 0, BATCH)
    proxy.cut()
    assert proxy.connections == 0
    with pytest.raises(LabError, match="reset by peer"):
        raw.produce(topic, 0, BATCH)
    assert raw.produce(topic, 0, BATCH) == 1


@pytest.mark.broker
def test_a_refused_client_connects_later_and_open_connections_continue(
    proxy: Proxy, raw: RawProtocol, topic: str
) -> None:
    raw.produce(topic, 0, BATCH)
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(_address(proxy), 5)
    assert raw.produce(topic, 0, BATCH) == 1
    proxy.accept()
    socket.create_connection(_address(proxy), 5).close()


@pytest.mark.broker
def test_a_request_is_executed_when_its_response_is_dropped(
    us: Cluster, proxy: Proxy, raw: RawProtocol, topic: str
) -> None:
    raw.produce(topic, 0, BATCH)
    proxy.black_hole()
    with ThreadPoolExecutor(1) as pool:
        response = pool.submit(raw.produce, topic, 0, BATCH)
        until(lambda: end(us, topic) == 2, "waiting for the record without a response")
        time.sleep(0.1)
        assert (response.done(), proxy.connections) == (False, 1)
        proxy.resume()
        with pytest.raises(LabError):
            response.result(20)
    assert raw.produce(topic, 0, BATCH) == 2


@pytest.mark.broker
@pytest.mark.parametrize("count", [1, 4, 100, 100_000])
def test_a_response_is_cut_after_so_many_bytes(proxy: Proxy, raw: RawProtocol, topic: str, count: int) -> None:
    raw.produce(topic, 0, batches.encode([Record(1_700_000_000_000, None, bytes(500_000))]))
    proxy.cut_after(count)
    fetch = struct.pack(">hhihiiiibiii", 1, 11, 1, -1, -1, 500, 1, 1 << 20, 0, 0, -1, 1)
    fetch += len(topic).to_bytes(2) + topic.encode() + struct.pack(">iiiqqiih", 1, 0, -1, 0, -1, 1 << 20, 0, 0)
    with socket.create_connection(_address(proxy), 20) as client:
        client.sendall(len(fetch).to_bytes(4) + fetch)
        received = 0

        def receive() -> None:
            nonlocal received
            while part := client.recv(1 << 20):
                received += len(part)

        with pytest.raises(ConnectionResetError):
            receive()
    assert received == count
    with RawProtocol(proxy.client_properties()) as again:
        assert len(again.fetch(topic, 0, 0).batches) > 500_000


@pytest.mark.broker
def test_a_request_is_cut_after_so_many_bytes(us: Cluster, proxy: Proxy, raw: RawProtocol, topic: str) -> None:
    raw.produce(topic, 0, BATCH)
    proxy.cut_after(100_000, of="requests")
    with pytest.raises(LabError):
        raw.produce(topic, 0, batches.encode([Record(1_700_000_000_000, None, bytes(500_000))]))
    assert raw.produce(topic, 0, BATCH) == end(us, topic) - 1 == 1


@pytest.mark.broker
def test_delay_and_rate_limit(proxy: Proxy, raw: RawProtocol, topic: str) -> None:
    raw.produce(topic, 0, batches.encode([Record(1_700_000_000_000, None, bytes(500_000))]))
    started = time.monotonic()
    proxy.delay(0.2)
    raw.produce(topic, 0, BATCH)
    assert time.monotonic() - started >= 0.4
    proxy.delay(0)
    started = time.monotonic()
    proxy.limit(1_000_000)
    fetched = raw.fetch(topic, 0, 0).batches
    assert time.monotonic() - started >= 0.4
    assert [len(batches.decode(batch)[1]) for batch in batches.split(fetched)] == [1, 1]
    proxy.limit(None)


@pytest.mark.broker
def test_bytes_in_flight_are_limited(us: Cluster, proxy: Proxy, raw: RawProtocol, topic: str) -> None:
    raw.produce(topic, 0, BATCH)
    proxy.limit_in_flight(10_000)
    proxy.delay(0.005, jitter=0.01)
    large = batches.encode([Record(1_700_000_000_000, None, random.Random(1).randbytes(300_000))])
    with ThreadPoolExecutor(1) as pool:
        response = pool.submit(raw.produce, topic, 0, large)
        most = 0
        while not response.done():
            most = max([most, *(pipe._queued for link in proxy._links for c in link.connections for pipe in c.pipes)])
    assert response.result() == 1
    assert 0 < most <= 10_000
    with RawProtocol(us.client_properties()) as direct:
        assert raw.fetch(topic, 0, 1).batches == direct.fetch(topic, 0, 1).batches


@pytest.mark.broker
def test_a_closed_proxy_leaves_no_thread_or_connection(us: Cluster, topic: str) -> None:
    us.create_topic(topic)
    before = threading.active_count()
    with Proxy(us) as proxy, RawProtocol(proxy.client_properties()) as raw:
        raw.offsets(topic, 0)
        proxy.stall()
    assert threading.active_count() == before
    assert proxy.connections == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(_address(proxy), 5)


@pytest.mark.broker
def test_a_proxy_works_with_sasl_but_not_with_tls(secure: Cluster) -> None:
    secure.grant("alice", "DESCRIBE", topic="*")
    with Proxy(secure, SASL_PLAIN) as proxy:
        known = AdminClient({**proxy.librdkafka_properties("alice"), **QUIET}).list_topics(timeout=10).brokers
        assert [f"{each.host}:{each.port}" for each in known.values()] == [proxy.bootstrap]
    with pytest.raises(LabError, match="cannot proxy listener TLS"):
        Proxy(secure, TLS)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_addresses_are_replaced_in_chunks_of_any_size(size: int) -> None:
    ours, theirs = b"\x0a127.0.0.1\x00\x00\x30\x39", b"\x0a127.0.0.1\x00\x00\x90\x91"
    responses = [
        b"",
        b"1",
        b"..." + ours + ours + b"\x0a127.0.0.1\x00\x00\x30\x38",
        ours[:8],
        b"x" * 50 + ours,
        ours[:-1],
    ]
    stream = b"".join(len(each).to_bytes(4) + each for each in responses)
    rewriter = Rewriter({ours: theirs})
    out = b"".join(rewriter.feed(stream[at : at + size]) for at in range(0, len(stream), size))
    assert out == stream.replace(ours, theirs)


def _address(faults: Faults) -> tuple[str, int]:
    assert isinstance(faults, Proxy)
    host, port = faults.bootstrap.split(",")[0].split(":")
    return host, int(port)
