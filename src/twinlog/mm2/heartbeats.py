"""MM2's heartbeats: records that the flow from `source` to `target` was alive at a time."""

from dataclasses import dataclass
from typing import Self

from twinlog.mm2.record_fields import INT16, INT64, VERSION, Fields, text_field


@dataclass(frozen=True, slots=True)
class Heartbeat:
    source: str
    target: str
    timestamp: int  # milliseconds

    def key(self) -> bytes:
        return text_field(self.source) + text_field(self.target)

    def value(self) -> bytes:
        return INT16.pack(VERSION) + INT64.pack(self.timestamp)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Raises ValueError if the record is malformed."""
        names = Fields("heartbeat", "key", key)
        content = Fields("heartbeat", "value", value)
        content.expect_version()
        return cls(names.text("source"), names.text("target"), content.number(INT64, "timestamp"))
