"""Encodes and decodes the fields of MM2's versioned records (heartbeats, checkpoints)."""

import struct
from typing import Final

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")
VERSION: Final = 0


class Fields:
    """The fields of one key or value, in order. Bytes after the last field are ignored, as by MM2."""

    def __init__(self, record: str, part: str, content: bytes | None) -> None:
        if content is None:
            raise ValueError(f"{record} without a {part}")
        self._name = f"{record}: {part}"
        self._content = content
        self._at = 0

    def number(self, layout: struct.Struct, field: str) -> int:
        (number,) = layout.unpack(self._bytes(layout.size, field))
        return int(number)

    def text(self, field: str) -> str:
        length = self.number(INT16, f"the length of {field}")
        if length < 0:
            raise ValueError(f"{self._name} has an invalid length of {field}: {length}")
        try:
            return self._bytes(length, f"{field} of {length}").decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{self._name} has a {field} that is not UTF-8: {error.reason}") from error

    def expect_version(self) -> None:
        if (version := self.number(INT16, "version")) != VERSION:
            raise ValueError(f"{self._name} has unsupported version {version} (supported: {VERSION})")

    def _bytes(self, size: int, field: str) -> bytes:
        if len(self._content) < self._at + size:
            raise ValueError(f"{self._name} of {len(self._content)} bytes is too short for {field}")
        self._at += size
        return self._content[self._at - size : self._at]


def text_field(text: str) -> bytes:
    content = text.encode()
    return INT16.pack(len(content)) + content
