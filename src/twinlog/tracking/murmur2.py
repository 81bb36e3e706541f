"""The hash by which Kafka's Java producer places a key: a record of MM2's that we replace must lie where MM2 put it."""

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """As Java's int: signed."""
    h = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if len(data) > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def partition_for(key: bytes, count: int) -> int:
    """The partition that Kafka's default partitioner chooses among `count`."""
    return (murmur2(key) & 0x7FFFFFFF) % count
