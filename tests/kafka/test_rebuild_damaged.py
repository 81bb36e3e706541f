"""Rebuilding malformed batches raises ValueError with the reason."""

import random
import struct

import pytest

from tests.kafka.conftest import CONTROL, HEADER, NOW, PLENTY, batch, checked, ones, run
from twinlog.kafka.codecs import NONE, ZSTD
from twinlog.kafka.rebuild import rebuild, recompress


def malformed() -> list[tuple[str, bytes, str]]:
    one, five = bytes(batch(run(1))), bytes(batch(run(5)))
    at = HEADER.size

    def with_count(count: int) -> bytes:
        return five[:57] + struct.pack(">i", count) + five[61:]

    def resized(data: bytes) -> bytes:
        return data[:8] + struct.pack(">i", len(data) - 12) + data[12:]

    return [
        ("nothing", b"", "truncated"),
        ("a piece", one[:30], "truncated"),
        ("a short header", one[:60], "truncated"),
        ("a cut record", one[:-1], "bytes in"),
        ("more than the batch", one + b"\0", "bytes in"),
        ("a record less", resized(five[:-1]), "end of the batch"),
        ("too few counted", with_count(4), "end of the batch"),
        ("too many counted", with_count(6), "truncated"),
        ("none counted", with_count(0), "end of the batch"),
        ("a negative count", with_count(-1), "-1 records"),
        ("a huge count", with_count(2**31 - 1), "2147483647 records"),
        ("magic 3", one[:16] + b"\x03" + one[17:], "magic"),
        ("codec 5", one[:22] + b"\x05" + one[23:], "codec"),
        ("a control batch", one[:22] + bytes([CONTROL]) + one[23:], "control"),
        ("a negative length", five[:at] + b"\x01" + five[at + 1 :], "length or offset"),
        ("an endless length", resized(five[:at] + b"\xff" * 20), "more than 32 bits"),
        ("an endless time", resized(five[: at + 2] + b"\xff" * 20), "more than 64 bits"),
        ("an endless offset", resized(five[: at + 3] + b"\xff" * 20), "more than 32 bits"),
        ("a negative offset", five[: at + 3] + b"\x01" + five[at + 4 :], "length or offset"),
        ("equal offsets", bytes(batch([*run(1), *run(1)])), "length or offset"),
        ("falling offsets", bytes(batch([*run(1, offset=4), *run(1, offset=3)], base=0, last=9)), "length or offset"),
        ("an offset after the last", bytes(batch(run(5), last=3)), "ends at 3"),
        ("a record without fields", resized(five[:57] + b"\0\0\0\x01" + b"\x06\0\0\0"), "length or offset"),
        (
            "a time out of bounds",
            bytes(batch(run(1), base_timestamp=NOW - 5))[:27]
            + struct.pack(">q", 2**63 - 1)
            + bytes(batch(run(1), base_timestamp=NOW - 5))[35:],
            "64 bits",
        ),
    ]


@pytest.mark.parametrize(("raw", "reason"), [pytest.param(raw, why, id=name) for name, raw, why in malformed()])
def test_malformed_batches_are_rejected(raw: bytes, reason: str) -> None:
    for codec in (None, NONE):
        with pytest.raises(ValueError, match=reason):
            rebuild([memoryview(raw)], start=0, codec=codec, max_bytes=PLENTY)


def test_batches_out_of_order_are_rejected() -> None:
    for log in (ones([*run(1, offset=5), *run(1, offset=5)]), [batch(run(5)), batch(run(3, offset=4))]):
        with pytest.raises(ValueError, match="after"):
            rebuild(log, start=0, codec=None, max_bytes=PLENTY)


@pytest.mark.parametrize("codec", range(5))
def test_only_value_errors_come_out_of_damaged_batches(codec: int) -> None:
    chance = random.Random(codec)
    for count in (1, 4, 70):
        whole = bytes(batch(run(count), codec))
        for _ in range(700):
            copy = bytearray(whole)
            for _ in range(chance.randrange(1, 4)):
                tp = chance.randrange(min(len(copy), chance.choice([70, 10**9])))
                copy[tp] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
            view = memoryview(copy)[: chance.randrange(len(copy)) if chance.random() < 0.1 else len(copy)]
            for wanted in (None, NONE):
                try:
                    checked(rebuild([view], start=0, codec=wanted, max_bytes=PLENTY))
                except ValueError as error:
                    assert str(error)  # noqa: PT017  (some changes leave a good batch)
            try:
                recompress(view, ZSTD)[0]
            except ValueError as error:
                assert str(error)  # noqa: PT017
