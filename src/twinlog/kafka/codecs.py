"""Kafka's four compression codecs, compatible with Java's. Malformed data raises ValueError, and no other error."""

import struct
from collections.abc import Callable

import cramjam

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

# Bytes of a decompressed record section. Kafka has no limit: a batch of 1 MB may expand to 30 GB.
MAX_DECOMPRESSED = 256 * 1024 * 1024

# Java does not write raw snappy but the frames of its library (xerial): a magic word, two versions, then blocks.
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024  # Java's default
_INT = struct.Struct(">i")

_LZ4_MAGIC = b"\x04\x22\x4d\x18"

_Into = Callable[[memoryview, bytearray], int]


def decompress(codec: int, data: memoryview | bytes, magic: int = 2, limit: int = MAX_DECOMPRESSED) -> bytes:
    """The decompressed record section. `magic` is the batch's: in magic 0 the checksum of LZ4 frames differs."""
    view = memoryview(data)
    try:
        match codec:
            case 0:
                if len(view) > limit:
                    raise _too_large(codec, limit)
                return bytes(view)
            case 1:
                # A gzip stream ends with its size, which is exact for a single member and a first guess for several.
                # Deflate expands at most 1032 times: a wrong size must not allocate up to the limit.
                size = min(int.from_bytes(view[-4:], "little"), 1032 * len(view))
                return _decompress_growing(cramjam.gzip.decompress_into, codec, view, size, limit)
            case 2:
                return _unsnappy(view, limit)
            case 3:
                if magic == 0:
                    view = memoryview(_with_fixed_checksum(view))
                return _decompress_growing(cramjam.lz4.decompress_into, codec, view, 4 * len(view), limit)
            case 4 if magic == 2:
                return _decompress_growing(cramjam.zstd.decompress_into, codec, view, 8 * len(view), limit)
    except cramjam.DecompressionError as error:
        raise ValueError(f"{NAMES[codec]}: {error}") from error
    except MemoryError as error:
        raise ValueError(f"{NAMES[codec]}: not enough memory to decompress") from error
    raise ValueError(f"unknown codec in magic {magic}: {codec}")


def compress(codec: int, data: memoryview | bytes | bytearray, level: int | None = None) -> bytes | memoryview:
    """`level` as in Kafka's `compression.<codec>.level`; None: Kafka's default."""
    match codec:
        case 0:
            return memoryview(data)
        case 1:
            return memoryview(cramjam.gzip.compress(data, None if level == -1 else level))
        case 2:
            return _snappy(memoryview(data))
        case 3:
            # Java reads only independent blocks. Its default is LZ4's fast mode: level 0 here, while None would be 4.
            compressor = cramjam.lz4.Compressor(level=level or 0, content_checksum=False, block_linked=False)
            compressor.compress(bytes(data))  # a memoryview is not accepted
            return memoryview(compressor.finish())
        case 4:
            return memoryview(cramjam.zstd.compress(data, level))
    raise ValueError(f"unknown codec: {codec}")


def _decompress_growing(into: _Into, codec: int, data: memoryview, guess: int, limit: int) -> bytes:
    """Decompresses into a buffer of fixed size, and into larger ones while it is too small.

    cramjam's own growing buffer has no limit.
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
    if bytes(data[:8]) != _XERIAL_MAGIC:  # librdkafka and others may write one raw block, which Java accepts
        return _snappy_block(data, limit, limit)
    blocks: list[bytes] = []
    at, end, left = 0, len(data), limit
    while at < end:
        if bytes(data[at : at + 8]) == _XERIAL_MAGIC:  # also between blocks: streams may be concatenated
            at += len(_XERIAL_HEADER)
            continue
        if at + 4 > end:
            raise ValueError("snappy: truncated block size")
        (size,) = _INT.unpack_from(data, at)
        at += 4
        if size < 0 or at + size > end:
            raise ValueError("snappy: block exceeds the data")
        block = _snappy_block(data[at : at + size], left, limit)
        left -= len(block)
        blocks.append(block)
        at += size
    if at > end:
        raise ValueError("snappy: truncated header")
    return b"".join(blocks)


def _snappy_block(data: memoryview, left: int, limit: int) -> bytes:
    # A block begins with its decompressed size, which the library allocates: check it first.
    if cramjam.snappy.decompress_raw_len(data) > left:
        raise _too_large(SNAPPY, limit)
    return bytes(memoryview(cramjam.snappy.decompress_raw(data)))


def _snappy(data: memoryview) -> bytes:
    parts: list[bytes | memoryview] = [_XERIAL_HEADER]
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = memoryview(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK]))
        parts += (_INT.pack(len(block)), block)
    return b"".join(parts)


def _with_fixed_checksum(frame: memoryview) -> bytes:
    """Fixes LZ4 frames of magic 0, whose header checksum includes the magic word (KAFKA-3160)."""
    if len(frame) < 7 or bytes(frame[:4]) != _LZ4_MAGIC:
        raise ValueError("lz4: not an LZ4 frame")
    # Two bits of the flags announce a content size and a dictionary id, which extend the header.
    end = 6 + (8 if frame[4] & 0x08 else 0) + (4 if frame[4] & 0x01 else 0)
    checksum = (_xxh32_short(bytes(frame[4:end])) >> 8) & 0xFF
    return b"".join((frame[:end], bytes((checksum,)), frame[end + 1 :]))


def _xxh32_short(data: bytes) -> int:
    """xxHash32 with seed 0 of less than 16 bytes, as in the LZ4 header."""
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
    return ValueError(f"{NAMES[codec]}: more than {limit} bytes after decompression")
