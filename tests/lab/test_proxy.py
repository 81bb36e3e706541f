"""Networks that fail: what a client sees of each fault, and that it finds no way around them."""

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

from twinlog.errors import LabError
from twinlog.lab import batches, tools
from twinlog.lab.batches import Record
from twinlog.lab.cluster import Cluster
from twinlog.lab.lab import Lab
from twinlog.lab.listeners import SASL_PLAIN, TLS
from twinlog.lab.pipes import Rewriter
from twinlog.lab.proxy import Faults, Proxy
from twinlog.lab.waiting import until
from twinlog.lab.wire import Wire

QUIET = {"log_level": 0}  # librdkafka speaks of connections that are gone with the proxy
BATCH = batches.encode([Record(1_700_000_000_000, b"key", b"value")])


@pytest.fixture(scope="module")
def pair(lab: Lab) -> Iterator[Cluster]:
    cluster = lab.cluster("proxied", brokers=2)
    yield cluster
    lab.discard(cluster)


@pytest.fixture
def proxy(us: Cluster, topic: str) -> Iterator[Proxy]:
    """To a topic with room for old records."""
    us.create_topic(topic, configs={"retention.ms": "-1"})
    with Proxy(us) as proxy:
        yield proxy


@pytest.fixture
def wire(proxy: Proxy) -> Iterator[Wire]:
    """A client that makes one request at a time, and keeps its connection."""
    with Wire(proxy.client_properties()) as wire:
        yield wire


def end(cluster: Cluster, topic: str) -> int:
    with Wire(cluster.client_properties()) as direct:
        return direct.offsets(topic, 0)[1]


@pytest.mark.broker
def test_a_client_finds_no_way_around(pair: Cluster, topic: str) -> None:
    pair.create_topic(topic, partitions=2, replication_factor=1)
    with Proxy(pair) as proxy:
        doors = set(proxy.bootstrap.split(","))
        known = AdminClient({**proxy.librdkafka_properties(), **QUIET}).list_topics(timeout=10).brokers
        assert {f"{each.host}:{each.port}" for each in known.values()} == doors
        with KafkaAdminClient(bootstrap_servers=proxy.bootstrap.split(",")[0]) as admin:
            assert {f"{each['host']}:{each['port']}" for each in admin.describe_cluster()["brokers"]} == doors
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
        assert all(link.passed("answers") > 1000 for link in proxy.links)
        assert proxy.passed("answers") == sum(link.passed("answers") for link in proxy.links)


@pytest.mark.broker
def test_a_java_client_finds_no_way_around_either(pair: Cluster, topic: str) -> None:
    pair.create_topic(topic, partitions=2, replication_factor=1)
    noise = "".join(f"{random.Random(number).randbytes(500).hex()}\n" for number in range(200))
    with Proxy(pair) as proxy:
        tools.run(
            "console-producer", "--topic", topic, "--command-property", "compression.type=none",
            properties=proxy.client_properties(), stdin=noise,
        )  # fmt: skip
        assert proxy.passed("requests") > len(noise)
    with Wire(pair.client_properties()) as wire:
        assert sum(wire.offsets(topic, partition)[1] for partition in (0, 1)) == 200


@pytest.mark.broker
def test_a_refusal_that_names_the_new_leader_leads_through_the_proxy(pair: Cluster, topic: str) -> None:
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
def test_one_broker_s_link_fails_and_the_other_s_does_not(pair: Cluster, topic: str) -> None:
    pair.create_topic(topic, partitions=2, replication_factor=1, configs={"retention.ms": "-1"})
    reached = [pair.leader(topic, partition) for partition in (0, 1)]
    with Proxy(pair) as proxy, Wire(proxy.client_properties()) as wire:
        assert sorted(reached) == [0, 1]
        for partition in (0, 1):
            wire.produce(topic, partition, BATCH)
        proxy.links[reached[1]].refuse()
        proxy.links[reached[1]].cut()
        assert wire.produce(topic, 0, BATCH) == 1
        for _ in range(2):
            with pytest.raises(LabError):
                wire.produce(topic, 1, BATCH)
        proxy.links[reached[1]].accept()
        assert wire.produce(topic, 1, BATCH) == 1


@pytest.mark.broker
def test_what_stalls_goes_on_where_it_stood(us: Cluster, proxy: Proxy, wire: Wire, topic: str) -> None:
    wire.produce(topic, 0, BATCH)
    proxy.stall()
    passed = proxy.passed("requests")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(wire.produce, topic, 0, BATCH)
        time.sleep(0.3)
        assert (answer.done(), proxy.connections, proxy.passed("requests")) == (False, 1, passed)
        assert end(us, topic) == 1
        with socket.create_connection(_door(proxy), 5):  # taken, since no network refuses
            until(lambda: proxy.connections == 2, "the second connection")
        proxy.resume()
        assert answer.result(20) == 1


@pytest.mark.broker
def test_a_cut_connection_is_reset_and_a_new_one_works(proxy: Proxy, wire: Wire, topic: str) -> None:
    wire.produce(topic, 0, BATCH)
    proxy.cut()
    assert proxy.connections == 0
    with pytest.raises(LabError, match="reset by peer"):
        wire.produce(topic, 0, BATCH)
    assert wire.produce(topic, 0, BATCH) == 1


@pytest.mark.broker
def test_a_refused_client_comes_in_later_and_open_connections_live_on(proxy: Proxy, wire: Wire, topic: str) -> None:
    wire.produce(topic, 0, BATCH)
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(_door(proxy), 5)
    assert wire.produce(topic, 0, BATCH) == 1
    proxy.accept()
    socket.create_connection(_door(proxy), 5).close()


@pytest.mark.broker
def test_what_falls_into_a_black_hole_was_done(us: Cluster, proxy: Proxy, wire: Wire, topic: str) -> None:
    wire.produce(topic, 0, BATCH)
    proxy.black_hole()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(wire.produce, topic, 0, BATCH)
        until(lambda: end(us, topic) == 2, "the record that nobody hears of")
        time.sleep(0.1)
        assert (answer.done(), proxy.connections) == (False, 1)
        proxy.resume()
        with pytest.raises(LabError):
            answer.result(20)
    assert wire.produce(topic, 0, BATCH) == 2


@pytest.mark.broker
@pytest.mark.parametrize("count", [1, 4, 100, 100_000])
def test_an_answer_is_cut_after_so_many_bytes(proxy: Proxy, wire: Wire, topic: str, count: int) -> None:
    wire.produce(topic, 0, batches.encode([Record(1_700_000_000_000, None, bytes(500_000))]))
    proxy.cut_after(count)
    fetch = struct.pack(">hhihiiiibiii", 1, 11, 1, -1, -1, 500, 1, 1 << 20, 0, 0, -1, 1)
    fetch += len(topic).to_bytes(2) + topic.encode() + struct.pack(">iiiqqiih", 1, 0, -1, 0, -1, 1 << 20, 0, 0)
    with socket.create_connection(_door(proxy), 20) as client:
        client.sendall(len(fetch).to_bytes(4) + fetch)
        received = 0

        def receive() -> None:
            nonlocal received
            while part := client.recv(1 << 20):
                received += len(part)

        with pytest.raises(ConnectionResetError):
            receive()
    assert received == count
    with Wire(proxy.client_properties()) as again:
        assert len(again.fetch(topic, 0, 0).batches) > 500_000


@pytest.mark.broker
def test_a_request_is_cut_after_so_many_bytes(us: Cluster, proxy: Proxy, wire: Wire, topic: str) -> None:
    wire.produce(topic, 0, BATCH)
    proxy.cut_after(100_000, of="requests")
    with pytest.raises(LabError):
        wire.produce(topic, 0, batches.encode([Record(1_700_000_000_000, None, bytes(500_000))]))
    assert wire.produce(topic, 0, BATCH) == end(us, topic) - 1 == 1


@pytest.mark.broker
def test_delayed_and_limited_bytes_all_arrive_and_not_too_early(proxy: Proxy, wire: Wire, topic: str) -> None:
    wire.produce(topic, 0, batches.encode([Record(1_700_000_000_000, None, bytes(500_000))]))
    started = time.monotonic()
    proxy.delay(0.2)
    wire.produce(topic, 0, BATCH)
    assert time.monotonic() - started >= 0.4
    proxy.delay(0)
    started = time.monotonic()
    proxy.limit(1_000_000)
    raw = wire.fetch(topic, 0, 0).batches
    assert time.monotonic() - started >= 0.4
    assert [len(batches.decode(batch)[1]) for batch in batches.split(raw)] == [1, 1]
    proxy.limit(None)


@pytest.mark.broker
def test_a_closed_proxy_leaves_nothing(us: Cluster, topic: str) -> None:
    us.create_topic(topic)
    before = threading.active_count()
    with Proxy(us) as proxy, Wire(proxy.client_properties()) as wire:
        wire.offsets(topic, 0)
        proxy.stall()
    assert threading.active_count() == before
    assert proxy.connections == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(_door(proxy), 5)


@pytest.mark.broker
def test_a_proxy_lets_a_login_pass_but_not_tls(secure: Cluster) -> None:
    secure.grant("alice", "DESCRIBE", topic="*")
    with Proxy(secure, SASL_PLAIN) as proxy:
        known = AdminClient({**proxy.librdkafka_properties("alice"), **QUIET}).list_topics(timeout=10).brokers
        assert [f"{each.host}:{each.port}" for each in known.values()] == [proxy.bootstrap]
    with pytest.raises(LabError, match="a proxy cannot see the addresses inside TLS"):
        Proxy(secure, TLS)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_addresses_are_replaced_however_an_answer_is_cut_up(size: int) -> None:
    ours, theirs = b"\x0a127.0.0.1\x00\x00\x30\x39", b"\x0a127.0.0.1\x00\x00\x90\x91"
    answers = [
        b"",
        b"1",
        b"..." + ours + ours + b"\x0a127.0.0.1\x00\x00\x30\x38",
        ours[:8],
        b"x" * 50 + ours,
        ours[:-1],
    ]
    stream = b"".join(len(each).to_bytes(4) + each for each in answers)
    rewriter = Rewriter({ours: theirs})
    out = b"".join(rewriter.feed(stream[at : at + size]) for at in range(0, len(stream), size))
    assert out == stream.replace(ours, theirs)


def _door(faults: Faults) -> tuple[str, int]:
    assert isinstance(faults, Proxy)
    host, port = faults.bootstrap.split(",")[0].split(":")
    return host, int(port)
