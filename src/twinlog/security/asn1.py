"""A reader of ASN.1 (DER, and the BER of old tools), limited to what PKCS12, PKCS8 and certificates need.

Lengths are checked against the parent and nesting is limited, so a damaged file ends in an error.
"""

from dataclasses import dataclass, field

from twinlog.security.keystore_entries import StoreError

INTEGER, OCTETS, NULL, OID, SEQUENCE, SET, BMP = 0x02, 0x04, 0x05, 0x06, 0x30, 0x31, 0x1E
_CONSTRUCTED = 0x20
_DEEPEST = 16


@dataclass(frozen=True, slots=True)
class Node:
    tag: int
    content: bytes = field(repr=False)
    whole: bytes = field(repr=False)  # with tag and length
    depth: int = 0

    def children(self) -> list["Node"]:
        found, at = [], 0
        while at < len(self.content):
            node, at = _read(self.content, at, self.depth + 1)
            found.append(node)
        return found

    def sequence(self, least: int) -> list["Node"]:
        """The members of a SEQUENCE of at least that many."""
        found = self.expect(SEQUENCE).children()
        if len(found) < least:
            raise StoreError("damaged file (ASN.1 element missing)")
        return found

    def expect(self, tag: int) -> "Node":
        if self.tag != tag:
            raise StoreError(f"damaged file (ASN.1 tag {self.tag:#x}, expected {tag:#x})")
        return self

    def explicit(self, number: int) -> "Node":
        """The value inside `[number] EXPLICIT`."""
        inside = self.expect(0xA0 | number).children()
        if len(inside) != 1:
            raise StoreError("damaged file (ASN.1 tagged value empty)")
        return inside[0]

    def octets(self) -> bytes:
        """An OCTET STRING's bytes; BER may split one into parts."""
        if self.tag & _CONSTRUCTED:
            return b"".join(part.octets() for part in self.children())
        return self.content

    def integer(self) -> int:
        return int.from_bytes(self.expect(INTEGER).content, "big", signed=True)

    def oid(self) -> str:
        content = self.expect(OID).content
        if not content or len(content) > 64 or content[-1] & 0x80:
            raise StoreError("damaged file (object identifier)")
        arcs, value = [], 0
        for byte in content:
            value = value << 7 | byte & 0x7F
            if not byte & 0x80:
                arcs.append(value)
                value = 0
        first = min(arcs[0] // 40, 2)
        return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))


def parse(data: bytes) -> Node:
    """The first value. Bytes after it are ignored, as in Java."""
    return _read(data, 0, 0)[0]


def _read(data: bytes, start: int, depth: int) -> tuple[Node, int]:
    if depth > _DEEPEST:
        raise StoreError("damaged file (nested too deeply)")
    if start + 2 > len(data):
        raise StoreError("file is truncated")
    tag, size, at = data[start], data[start + 1], start + 2
    if tag & 0x1F == 0x1F:
        raise StoreError("damaged file (multi-byte ASN.1 tag)")
    if size == 0x80 and tag & _CONSTRUCTED:
        end = at
        while data[end : end + 2] != b"\0\0":
            _, end = _read(data, end, depth + 1)
        return Node(tag, data[at:end], data[start : end + 2], depth), end + 2
    if size & 0x80:
        count = size & 0x7F
        if not 1 <= count <= 4:
            raise StoreError("damaged file (ASN.1 length)")
        size = int.from_bytes(data[at : at + count], "big")
        at += count
    if at + size > len(data):
        raise StoreError("file is truncated")
    return Node(tag, data[at : at + size], data[start : at + size], depth), at + size


@dataclass(frozen=True, slots=True)
class CertificateNames:
    """The fields of a certificate that link a chain, as raw bytes."""

    issuer: bytes
    subject: bytes
    public_key: bytes


def certificate_names(der: bytes) -> CertificateNames:
    members = parse(der).sequence(3)[0].sequence(6)
    if members[0].tag == 0xA0:  # the version, which a version 1 certificate leaves out
        members = members[1:]
    if len(members) < 6:
        raise StoreError("damaged certificate")
    return CertificateNames(members[2].whole, members[4].whole, members[5].whole)
