"""RC2 decryption (RFC 2268): until 2021 keytool and openssl encrypted the certificates of PKCS12 files with it.

`cryptography` supports 128-bit RC2 keys only; these files use 40 bits.
"""

_PI = bytes.fromhex(
    "d978f9c419ddb5ed28e9fd794aa0d89dc67e37832b76538e624c6488448bfba2179a59f587b34f1361456d8d09817d32"
    "bd8f40eb86b77b0bf09521225c6b4e8254d66593ce60b21c7356c014a78cf1dc1275ca1f3bbee4d1423dd430a33cb626"
    "6fbf0eda4669075727f21d9bbc944303f811c7f690ef3ee706c3d52fc8661ed708e8eade8052eef784aa72ac354d6a2a"
    "961ad2715a1549744b9fd05e0418a4ecc2e0416e0f51cbcc2491af50a1f47039997c3a8523b8b47afc02365b25559731"
    "2d5dfa98e38a92ae05df2910676cbac9d300e6cfe19ea82c6316013f58e289a90d38341bab33ffb0bb480c5fb9b1cd2e"
    "c5f3db47e5a59c770aa62068fe7fc1ad"
)
_SHIFTS = (1, 2, 3, 5)
_BLOCK = 8


def decrypt_cbc(key: bytes, iv: bytes, data: bytes) -> bytes:
    """The result includes the padding. The effective key length is that of the key; `data` is complete blocks."""
    words = _expand(key)
    plain, before = bytearray(), iv
    for at in range(0, len(data), _BLOCK):
        block = data[at : at + _BLOCK]
        plain += bytes(a ^ b for a, b in zip(_decrypt(words, block), before, strict=True))
        before = block
    return bytes(plain)


def _expand(key: bytes) -> list[int]:
    size = len(key)
    table = bytearray(key)
    for at in range(size, 128):
        table.append(_PI[(table[at - 1] + table[at - size]) & 0xFF])
    table[128 - size] = _PI[table[128 - size]]
    for at in range(127 - size, -1, -1):
        table[at] = _PI[table[at + 1] ^ table[at + size]]
    return [int.from_bytes(table[at : at + 2], "little") for at in range(0, 128, 2)]


def _decrypt(words: list[int], block: bytes) -> bytes:
    r = [int.from_bytes(block[at : at + 2], "little") for at in range(0, _BLOCK, 2)]
    at = 63
    for rounds, mash in ((5, True), (6, True), (5, False)):
        for _ in range(rounds):
            for i in (3, 2, 1, 0):
                shift = _SHIFTS[i]
                turned = (r[i] >> shift | r[i] << (16 - shift)) & 0xFFFF
                before, second, third = r[i - 1], r[i - 2], r[i - 3]
                r[i] = (turned - words[at] - (before & second) - (~before & third)) & 0xFFFF
                at -= 1
        if mash:
            for i in (3, 2, 1, 0):
                r[i] = (r[i] - words[r[i - 1] & 63]) & 0xFFFF
    return b"".join(word.to_bytes(2, "little") for word in r)
