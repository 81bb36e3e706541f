"""Which packets pass one direction of an emulated link, and when; no device is needed."""

import struct

import pytest

from lab.errors import LabError
from lab.link_conditions import Conditions
from lab.link_packets import QUEUE_SECONDS, VIRTIO_HEADER, OneWay, segments, split

SIZE = 1448
FIN_PSH_ACK_CWR, ACK = 0x99, 0x10


def packet(payload: bytes, *, flags: int = ACK, sequence: int = 1000) -> bytes:
    """As read from a TUN device: the checksum field contains the sum of the pseudo header."""
    total = 20 + 32 + len(payload)
    source, destination = bytes([198, 18, 0, 1]), bytes([198, 18, 0, 4])
    ip = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, total, 7, 0x4000, 64, 6, 0) + source + destination)
    ip[10:12] = (0xFFFF ^ ones_sum(ip)).to_bytes(2)
    pseudo = ones_sum(source + destination + struct.pack(">HH", 6, 32 + len(payload)))
    tcp = struct.pack(">HHIIBBHHH", 40000, 9092, sequence, 5, 0x80, flags, 500, pseudo, 0) + bytes(12)
    several = len(payload) > SIZE
    virtio = struct.pack("=BBHHHH", 1, int(several), 52, SIZE if several else 0, 20, 16)
    return virtio + bytes(ip) + tcp + payload


def ones_sum(data: bytes | bytearray) -> int:
    total = sum(int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def flags_of(found: bytes) -> int:
    return found[VIRTIO_HEADER + 20 + 13]


def drain(path: OneWay, now: float) -> list[bytes]:
    return list(path.due(now))


def test_a_packet_counts_as_its_segments() -> None:
    assert [segments(packet(bytes(size))) for size in (0, 1, SIZE, SIZE + 1, 3 * SIZE, 60_000)] == [1, 1, 1, 2, 3, 42]


@pytest.mark.parametrize(
    ("keep", "runs"),
    [
        ([1, 1, 1, 1, 1], [(0, 5)]),
        ([0, 1, 1, 1, 1], [(1, 5)]),
        ([1, 1, 1, 1, 0], [(0, 4)]),
        ([1, 0, 1, 1, 0], [(0, 1), (2, 4)]),
        ([0, 1, 0, 0, 1], [(1, 2), (4, 5)]),
        ([0, 0, 0, 0, 0], []),
    ],
)
def test_what_remains_after_loss_is_what_the_sender_could_have_sent(
    keep: list[int], runs: list[tuple[int, int]]
) -> None:
    payload = bytes(range(256)) * 25  # five segments, the last one shorter
    start = 0xFFFFFF00  # the sequence number wraps
    whole = packet(payload, flags=FIN_PSH_ACK_CWR, sequence=start)
    found = list(split(whole, [bool(each) for each in keep]))
    expected = []
    for first, end in runs:
        flags = ACK | (FIN_PSH_ACK_CWR & 0x09 if end == 5 else 0) | (0x80 if first == 0 else 0)
        part = payload[first * SIZE : end * SIZE]
        expected.append(packet(part, flags=flags, sequence=(start + first * SIZE) & 0xFFFFFFFF))
    assert found == expected


def test_packets_arrive_after_the_delay_and_in_order_despite_jitter() -> None:
    path = OneWay()
    path.change(Conditions(round_trip=0.2, jitter=0.1))
    packets = [packet(f"{number}".encode()) for number in range(200)]
    for number, each in enumerate(packets):
        path.add(each, number / 1000)
    assert drain(path, 0.0999) == []
    assert (path.next_due or 0) >= 0.1
    assert drain(path, 0.4) == packets
    assert path.counters.passed == 200


def test_a_shorter_delay_does_not_let_packets_overtake() -> None:
    path = OneWay()
    path.change(Conditions(round_trip=2))
    path.add(packet(b"first"), 0)
    path.change(Conditions())
    path.add(packet(b"second"), 0.5)
    assert drain(path, 0.9) == []
    assert drain(path, 1) == [packet(b"first"), packet(b"second")]


def test_loss_applies_to_segments() -> None:
    path = OneWay(seed=3)
    path.change(Conditions(loss=0.1))
    for _ in range(100):
        path.add(packet(bytes(40 * SIZE)), 0)
    found = drain(path, 0)
    assert sum(map(segments, found)) == path.counters.passed
    assert path.counters.passed + path.counters.lost == 4000
    assert 200 < path.counters.lost < 600
    assert len(found) > 100


def test_a_limited_rate_spreads_packets_and_drops_what_exceeds_the_queue() -> None:
    path = OneWay()
    path.change(Conditions(rate=100_000))
    for _ in range(100):
        path.add(packet(bytes(948)), 0)  # 1,000 bytes with headers: 10 ms each
    assert len(drain(path, 0.0501)) == 5
    passed = round(QUEUE_SECONDS * 100) + 1
    assert path.counters.passed == pytest.approx(passed, abs=1)
    assert path.counters.overflowed == 100 - path.counters.passed
    path.add(packet(b"later"), 10)
    assert drain(path, 11)[-1] == packet(b"later")


def test_a_cut_link_loses_everything_until_it_is_restored() -> None:
    path = OneWay()
    path.change(Conditions(round_trip=1))
    path.add(packet(bytes(3 * SIZE)), 0)
    path.change(Conditions(round_trip=1, cut=True))
    path.add(packet(b"lost"), 0.1)
    assert path.next_due is None
    assert path.counters.lost == 4
    path.change(Conditions(round_trip=1))
    path.add(packet(b"restored"), 0.2)
    assert drain(path, 1) == [packet(b"restored")]


def test_impossible_conditions_are_refused() -> None:
    for wrong in ({"round_trip": -1}, {"jitter": -1}, {"rate": 0}, {"loss": 1}, {"loss": -0.1}):
        with pytest.raises(LabError, match="a link's"):
            Conditions(**wrong)


def test_conditions_as_text() -> None:
    assert str(Conditions(round_trip=0.1)) == "100 ms round trip"
    everything = Conditions(round_trip=0.2, jitter=0.005, rate=1e6, loss=0.001, cut=True)
    assert str(everything) == "200 ms round trip, up to 5 ms of jitter, 1 MB/s, 0.1 % loss, cut"
