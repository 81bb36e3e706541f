"""Kafka's four compressions, as Java reads and writes them. Bad data raises ValueError, and nothing else."""

import struct
from collections.abc import Callable

import cramjam

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

# What a record section may grow to. Kafka itself knows no limit: a batch of 1 MB may claim to hold 30 GB.
LIMIT = 256 * 1024 * 1024

# Java does not write raw snappy but its library's frames ("xerial"): a magic word, two versions, then blocks.
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024  # Java's default
_INT = struct.Struct(">i")

_LZ4_MAGIC = b"\x04\x22\x4d\x18"

_Into = Callable[[memoryview, bytearray], int]


def decompress(codec: int, data: memoryview | bytes, magic: int = 2, limit: int = LIMIT) -> bytes:
    """The record section in the clear. `magic` is the batch's: that of LZ4 frames differs in magic 0."""
    view = memoryview(data)
    try:
        match codec:
            case 0:
                if len(view) > limit:
                    raise _too_large(codec, limit)
                return bytes(view)
            case 1:
                # A gzip stream ends with its size: right for the usual single member, a first guess for others.
                # One byte cannot become more than 1032, so a lie does not reserve all that the limit allows.
                size = min(int.from_bytes(view[-4:], "little"), 1032 * len(view))
                return _grown(cramjam.gzip.decompress_into, codec, view, size, limit)
            case 2:
                return _unsnappy(view, limit)
            case 3:
                if magic == 0:
                    view = memoryview(_with_right_checksum(view))
                return _grown(cramjam.lz4.decompress_into, codec, view, 4 * len(view), limit)
            case 4 if magic == 2:
                return _grown(cramjam.zstd.decompress_into, codec, view, 8 * len(view), limit)
    except cramjam.DecompressionError as error:
        raise ValueError(f"{NAMES[codec]}: {error}") from error
    except MemoryError as error:
        raise ValueError(f"{NAMES[codec]}: too large for the memory that there is") from error
    raise ValueError(f"no such codec in magic {magic}: {codec}")


def compress(codec: int, data: memoryview | bytes | bytearray, level: int | None = None) -> bytes | memoryview:
    """`level` counts as in Kafka's `compression.<codec>.level`; None is Kafka's default for each."""
    match codec:
        case 0:
            return memoryview(data)
        case 1:
            return memoryview(cramjam.gzip.compress(data, None if level == -1 else level))
        case 2:
            return _snappy(memoryview(data))
        case 3:
            # Java reads independent blocks only. Its default is LZ4's fast mode: level 0 here, where None would be 4.
            compressor = cramjam.lz4.Compressor(level=level or 0, content_checksum=False, block_linked=False)
            compressor.compress(bytes(data))  # it takes no memoryview
            return memoryview(compressor.finish())
        case 4:
            return memoryview(cramjam.zstd.compress(data, level))
    raise ValueError(f"no such codec: {codec}")


def _grown(into: _Into, codec: int, data: memoryview, guess: int, limit: int) -> bytes:
    """Decompresses into a buffer of fixed size, and into a larger one when it was too small.

    cramjam's own way, a buffer that grows while it is written, knows no limit.
    """
    size = min(max(guess, 4096), limit)
    while True:
        buffer = bytearray(size)
        try:
            written = into(data, buffer)
        except cramjam.DecompressionError as error:
            if "failed to write whole buffer" not in str(error):
                raise
            if size >= limit:
                raise _too_large(codec, limit) from error
            size = min(4 * size, limit)
            continue
        return bytes(memoryview(buffer)[:written])


def _unsnappy(data: memoryview, limit: int) -> bytes:
    if bytes(data[:8]) != _XERIAL_MAGIC:  # librdkafka and others may write one raw block, and Java reads it
        return _snappy_block(data, limit, limit)
    blocks: list[bytes] = []
    at, end, room = 0, len(data), limit
    while at < end:
        if bytes(data[at : at + 8]) == _XERIAL_MAGIC:  # also between blocks: streams may be joined
            at += len(_XERIAL_HEADER)
            continue
        if at + 4 > end:
            raise ValueError("snappy: a block's size is cut off")
        (size,) = _INT.unpack_from(data, at)
        at += 4
        if size < 0 or at + size > end:
            raise ValueError("snappy: a block goes beyond the data")
        block = _snappy_block(data[at : at + size], room, limit)
        room -= len(block)
        blocks.append(block)
        at += size
    if at > end:
        raise ValueError("snappy: the header is cut off")
    return b"".join(blocks)


def _snappy_block(data: memoryview, room: int, limit: int) -> bytes:
    # A block begins with its size in the clear, for which the library reserves memory: look before it does.
    if cramjam.snappy.decompress_raw_len(data) > room:
        raise _too_large(SNAPPY, limit)
    return bytes(memoryview(cramjam.snappy.decompress_raw(data)))


def _snappy(data: memoryview) -> bytes:
    parts: list[bytes | memoryview] = [_XERIAL_HEADER]
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = memoryview(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK]))
        parts += (_INT.pack(len(block)), block)
    return b"".join(parts)


def _with_right_checksum(frame: memoryview) -> bytes:
    """Magic 0's LZ4 frames: Kafka took the checksum of the header over its magic word too (KAFKA-3160)."""
    if len(frame) < 7 or bytes(frame[:4]) != _LZ4_MAGIC:
        raise ValueError("lz4: not a frame")
    # The second and third bit of the flags announce a content size and a dictionary's id, which lengthen the header.
    end = 6 + (8 if frame[4] & 0x08 else 0) + (4 if frame[4] & 0x01 else 0)
    checksum = (_xxh32_of_few(bytes(frame[4:end])) >> 8) & 0xFF
    return b"".join((frame[:end], bytes((checksum,)), frame[end + 1 :]))


def _xxh32_of_few(data: bytes) -> int:
    """xxHash32 with seed 0 of less than 16 bytes: all that LZ4's header needs."""
    mask = 0xFFFFFFFF
    value = (0x165667B1 + len(data)) & mask
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        value = (value + int.from_bytes(data[at : at + 4], "little") * 0xC2B2AE3D) & mask
        value = ((value << 17 | value >> 15) * 0x27D4EB2F) & mask
    for byte in data[whole:]:
        value = (value + byte * 0x165667B1) & mask
        value = ((value << 11 | value >> 21) * 0x9E3779B1) & mask
    value = ((value ^ value >> 15) * 0x85EBCA77) & mask
    value = ((value ^ value >> 13) * 0xC2B2AE3D) & mask
    return value ^ value >> 16


def _too_large(codec: int, limit: int) -> ValueError:
    return ValueError(f"{NAMES[codec]}: more than {limit} bytes when decompressed")
