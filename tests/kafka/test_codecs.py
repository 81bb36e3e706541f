"""Kafka's compression codecs: compatible with Java, and only ValueError for malformed data."""

import os
import random
import struct
import tracemalloc
from typing import Any

import cramjam
import pytest

from lab.kafka_classes import KafkaJvm
from twinlog.kafka.codecs import GZIP, LZ4, NAMES, NONE, SNAPPY, ZSTD, compress, decompress

CODECS = range(5)
COMPRESSING = range(1, 5)
CONTENTS = [b"", b"a", b"abc" * 50_000, os.urandom(100_000), bytes(300_000)]


@pytest.mark.parametrize("codec", CODECS, ids=NAMES)
@pytest.mark.parametrize("content", CONTENTS, ids=["empty", "one", "text", "noise", "zeros"])
def test_round_trip(codec: int, content: bytes) -> None:
    for given in (content, bytearray(content), memoryview(content)):
        assert decompress(codec, compress(codec, given)) == content


@pytest.mark.java
@pytest.mark.parametrize("codec", CODECS, ids=NAMES)
def test_java_decompresses(kafka_jvm: KafkaJvm, codec: int) -> None:
    java = _java(kafka_jvm, codec)
    no_cache = kafka_jvm.jvm.org.apache.kafka.common.utils.BufferSupplier.NO_CACHING
    for content in CONTENTS:
        for level in (None, 1, 9) if codec in {GZIP, LZ4, ZSTD} else (None,):
            packed = kafka_jvm.jvm.java.nio.ByteBuffer.wrap(bytes(compress(codec, content, level)))
            assert java.wrapForInput(packed, 2, no_cache).readAllBytes() == content


@pytest.mark.java
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", CODECS, ids=NAMES)
def test_decompresses_javas_data(kafka_jvm: KafkaJvm, codec: int, magic: int) -> None:
    if codec == ZSTD and magic < 2:
        pytest.skip("zstd came after magic 1")
    for content in CONTENTS:
        packed = _written_by_java(kafka_jvm, codec, magic, content)
        assert decompress(codec, packed, magic) == content
    if (codec, magic) == (LZ4, 0):  # or this test proves nothing about the wrong checksum of magic 0
        with pytest.raises(ValueError, match="headerChecksum"):
            decompress(codec, packed, 1)


def test_raw_snappy_block() -> None:
    content = b"raw as librdkafka writes it" * 100
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(content))) == content


def test_concatenated_snappy_frames() -> None:
    first, second = bytes(compress(SNAPPY, b"first")), bytes(compress(SNAPPY, b"second"))
    assert decompress(SNAPPY, first + second) == b"firstsecond"


def test_gzip_with_several_members() -> None:
    content = bytes(100_000)
    assert decompress(GZIP, bytes(compress(GZIP, content)) + bytes(compress(GZIP, b"more"))) == content + b"more"


def test_javas_default_level() -> None:
    content = b"words and more words " * 1000
    assert bytes(compress(GZIP, content, -1)) == bytes(compress(GZIP, content))


@pytest.mark.parametrize("codec", COMPRESSING, ids=NAMES[1:])
def test_decompression_bomb_is_rejected(codec: int) -> None:
    bomb = bytes(compress(codec, bytes(50_000_000)))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"{NAMES[codec]}: more than 1000000 bytes"):
            decompress(codec, bomb, limit=1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert len(decompress(codec, bomb)) == 50_000_000


def test_limit_of_uncompressed_data() -> None:
    with pytest.raises(ValueError, match="more than 10 bytes"):
        decompress(NONE, bytes(11), limit=10)


def test_snappy_block_with_a_wrong_size_is_rejected() -> None:
    lie = b"\xff\xff\xff\xff\x0f"  # 4 GB
    framed = bytes(compress(SNAPPY, b""))[:16] + struct.pack(">i", len(lie)) + lie
    for packed in (lie, framed):
        with pytest.raises(ValueError, match="more than"):
            decompress(SNAPPY, packed)


@pytest.mark.parametrize("codec", COMPRESSING, ids=NAMES[1:])
def test_only_value_errors_come_out_of_damaged_data(codec: int) -> None:
    chance = random.Random(codec)
    whole = bytes(compress(codec, b"".join(b"record %d " % n for n in range(20_000))))
    damaged = [whole[: chance.randrange(len(whole))] for _ in range(100)]
    for _ in range(300):
        copy = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            copy[chance.randrange(min(len(copy), chance.choice([20, 10**9])))] = chance.randrange(256)
        damaged.append(bytes(copy))
    for each in [b"", b"\0", *damaged]:
        for magic in (0, 1, 2):
            try:
                decompress(codec, each, magic, limit=2_000_000)
            except ValueError as error:
                assert str(error)  # noqa: PT017  (not all damage can be seen here; the batch's checksum is for that)


def test_unknown_codecs_are_named() -> None:
    for codec, magic in ((5, 2), (7, 1), (ZSTD, 1)):
        with pytest.raises(ValueError, match=f"unknown codec in magic {magic}: {codec}"):
            decompress(codec, b"", magic)
    with pytest.raises(ValueError, match="unknown codec: 6"):
        compress(6, b"")


def _java(kafka_jvm: KafkaJvm, codec: int) -> Any:
    return getattr(kafka_jvm.jvm.org.apache.kafka.common.compress.Compression, NAMES[codec])().build()


def _written_by_java(kafka_jvm: KafkaJvm, codec: int, magic: int, content: bytes) -> bytes:
    out = kafka_jvm.jvm.org.apache.kafka.common.utils.ByteBufferOutputStream(16)
    stream = _java(kafka_jvm, codec).wrapForOutput(out, magic)
    stream.write(content)
    stream.close()
    buffer = out.buffer()
    buffer.flip()
    return bytes(buffer.array())[: buffer.remaining()]
