"""An emulated link: what passes it is intact and in order, a cut can be restored, and nothing is left behind."""

import fcntl
import json
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lab import emulated_link
from lab.emulated_link import EmulatedLink, ProxyLink, TunLink, open_link
from lab.errors import LabError
from lab.lab import Lab
from lab.link_conditions import Conditions
from lab.link_process import Addresses
from lab.listeners import PLAINTEXT
from lab.raw_protocol import RawProtocol
from lab.waiting import until

DEVICES = Path("/sys/class/net")
CONTENT = random.Random(7).randbytes(3_000_000)

# Opens a link, prints its device and process, and waits.
PARENT = """
import json, time
from lab.emulated_link import TunLink
with TunLink() as link:
    print(json.dumps({"device": link.device, "pid": link.process.pid}), flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def _tun() -> Iterator[TunLink]:
    try:
        link = TunLink()
    except LabError as error:
        pytest.skip(f"no TUN device here: {error}")
    with link:
        yield link


@pytest.fixture
def tun(_tun: TunLink) -> TunLink:
    """Without delay or loss."""
    _tun.change(Conditions())
    return _tun


class Connection:
    """A connection over the link: `near` is the client's end, `far` the end behind the link."""

    def __init__(self, link: TunLink) -> None:
        with socket.create_server((link.listener.host, 0)) as server:
            self.near = socket.create_connection((link.listener.advertised_host, server.getsockname()[1]), 30)
            self.far, _ = server.accept()
        for end in (self.near, self.far):
            end.settimeout(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.near.close()
        self.far.close()


def send_all(end: socket.socket, content: bytes) -> None:
    end.sendall(content)
    end.shutdown(socket.SHUT_WR)


def receive_all(end: socket.socket) -> bytes:
    return b"".join(iter(lambda: end.recv(1 << 18), b""))


@pytest.mark.parametrize(
    "conditions",
    [
        Conditions(),
        Conditions(round_trip=0.02, jitter=0.01),
        Conditions(round_trip=0.002, loss=0.01),
        Conditions(round_trip=0.002, rate=6_000_000),
        Conditions(round_trip=0.01, jitter=0.002, rate=10_000_000, loss=0.005),
    ],
    ids=str,
)
def test_bytes_arrive_intact_and_in_order_in_both_directions(tun: TunLink, conditions: Conditions) -> None:
    before = tun.counters()
    tun.change(conditions)
    with Connection(tun) as connection, ThreadPoolExecutor(4) as pool:
        received = [pool.submit(receive_all, end) for end in (connection.near, connection.far)]
        sent = [pool.submit(send_all, end, CONTENT) for end in (connection.near, connection.far)]
        for each in sent:
            each.result(100)
        assert [each.result(100) == CONTENT for each in received] == [True, True]
    after = tun.counters()
    for direction in ("requests", "responses"):
        found = {name: after[direction][name] - before[direction][name] for name in after[direction]}
        assert found["passed"] >= len(CONTENT) / 1500
        assert (found["lost"] > 0) == (conditions.loss > 0)
        assert (found["overflowed"] > 0) <= (conditions.rate is not None)


@pytest.mark.parametrize("size", [65_536, 1_048_576, 16_777_216])
def test_a_send_buffer_limits_the_bytes_in_flight(tun: TunLink, size: int) -> None:
    """Also for large writes, which Linux may accept beyond the limit: see `SEGMENTS`."""
    tun.change(Conditions(round_trip=0.05))
    most = 0
    with Connection(tun) as connection, ThreadPoolExecutor(1) as pool:
        received = pool.submit(receive_all, connection.near)
        connection.far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 102_400)
        connection.far.settimeout(0)
        left = memoryview(bytes(4_000_000))
        while left:
            select.select([], [connection.far], [], 60)
            left = left[connection.far.send(left[:size]) :]
            in_flight = struct.unpack("i", fcntl.ioctl(connection.far, termios.TIOCOUTQ, bytes(4)))[0]
            most = max(most, in_flight)
        connection.far.shutdown(socket.SHUT_WR)
        assert len(received.result(60)) == 4_000_000
    assert 100_000 < most <= 204_800


def test_a_connection_survives_a_cut(tun: TunLink) -> None:
    with Connection(tun) as connection:
        connection.near.sendall(b"before")
        assert connection.far.recv(100) == b"before"
        tun.cut()
        lost = tun.counters()["requests"]["lost"]
        connection.near.sendall(b"during")
        connection.far.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.far.recv(100)
        assert tun.counters()["requests"]["lost"] > lost
        with pytest.raises(TimeoutError):
            socket.create_connection((tun.listener.advertised_host, 9), 0.3)
        tun.restore()
        connection.far.settimeout(60)
        assert connection.far.recv(100) == b"during"
        connection.far.sendall(b"after")
        assert connection.near.recv(100) == b"after"
    with Connection(tun):  # new connections work too
        pass


def test_conditions_stay_during_a_cut(tun: TunLink) -> None:
    tun.change(Conditions(round_trip=0.03))
    tun.cut()
    tun.restore()
    assert tun._conditions == Conditions(round_trip=0.03)


def test_links_have_their_own_devices_and_addresses(tun: TunLink) -> None:
    with TunLink() as other:
        assert other.device != tun.device
        assert other.listener.advertised_host != tun.listener.advertised_host
        tun.cut()
        with Connection(other):
            pass


def test_addresses_keep_checksums_valid() -> None:
    for number in (0, 1, 40, 9999):
        a = Addresses.of(number)
        near, broker, origin, far = (
            int.from_bytes(socket.inet_aton(each)) for each in (a.near, a.broker, a.origin, a.far)
        )
        assert near + far == origin + broker
        assert near >> 16 == far >> 16  # the sum of 16-bit words is the same, not only that of whole addresses
    assert Addresses.of(0).far != Addresses.of(1).near


def test_a_closed_link_leaves_nothing(tun: TunLink) -> None:
    del tun  # TUN devices work here
    threads = threading.active_count()
    link = TunLink()
    assert (DEVICES / link.device).exists()
    link.close()
    assert not link.process.alive
    assert not (DEVICES / link.device).exists()
    assert not link.process.log.exists()
    assert threading.active_count() == threads
    with pytest.raises(LabError, match="link emulator"):
        link.cut()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_a_parent_that_is_killed_leaves_no_device(tun: TunLink, number: signal.Signals) -> None:
    del tun
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            found = json.loads(parent.stdout.readline())
            assert (DEVICES / found["device"]).exists()
            parent.send_signal(number)
            parent.wait()
            until(lambda: not (DEVICES / found["device"]).exists(), "waiting for the device to disappear", seconds=30)
        finally:
            parent.kill()


def test_an_emulator_that_was_killed_is_reported(tun: TunLink) -> None:
    del tun
    with TunLink() as link:
        link.process.kill()
        with pytest.raises(LabError, match="link emulator"):
            link.change(Conditions(round_trip=0.1))


def test_without_a_tun_device_the_link_is_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated_link, "DEVICE", Path("/no/such/device"))
    with open_link() as link:
        assert link.kind == "TCP proxy (no /no/such/device)"
        assert not link.loses_packets
        link.change(Conditions(round_trip=0.1))
        with pytest.raises(LabError, match=r"cannot emulate loss: this link is a TCP proxy \(no /no/such/device\)"):
            link.change(Conditions(loss=0.01))


@pytest.mark.broker
@pytest.mark.parametrize("opened", [TunLink, ProxyLink])
def test_a_cluster_is_far_from_some_clients_and_near_to_others(
    request: pytest.FixtureRequest, lab: Lab, topic: str, opened: Callable[[], EmulatedLink]
) -> None:
    if opened is TunLink:
        request.getfixturevalue("tun")
    with opened() as link:
        link.change(Conditions(round_trip=0.02, jitter=0.002))
        cluster = lab.cluster(f"far-{opened.__name__.lower()}", brokers=2, listeners=(PLAINTEXT, link.listener))
        cluster.create_topic(topic, partitions=2, replication_factor=1)
        far = link.librdkafka_properties(cluster) | {"log_level": "0"}
        assert far["bootstrap.servers"] == link.client_properties(cluster)["bootstrap.servers"]
        known = AdminClient({**far}).list_topics(timeout=30).brokers.values()
        assert {f"{each.host}:{each.port}" for each in known} == set(far["bootstrap.servers"].split(","))
        producer = Producer({**far})
        for number in range(2000):
            producer.produce(topic, f"{number} {'x' * 500}".encode(), partition=number % 2)
        assert producer.flush(60) == 0
        consumer = Consumer({**far, "group.id": topic, "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
        found = consumer.consume(2000, 60)
        consumer.close()
        assert sorted(int((each.value() or b"").split()[0]) for each in found) == list(range(2000))

        link.cut()
        with ThreadPoolExecutor(1) as pool, RawProtocol(link.client_properties(cluster)) as over:
            response = pool.submit(over.partitions, topic)
            with RawProtocol(cluster.client_properties()) as direct:
                assert direct.partitions(topic) == [0, 1]
            time.sleep(0.3)
            assert not response.done()
            link.restore()
            assert response.result(60) == [0, 1]
        lab.discard(cluster)
