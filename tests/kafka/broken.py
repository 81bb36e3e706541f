"""A broker that answers as it is told: what no real one says."""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

PRODUCE, FETCH, OFFSETS, METADATA, VERSIONS, CREATE = 0, 1, 2, 3, 18, 19
Say = Callable[[int], Any]  # an answer for a version: kafka-python's, or bytes that go behind the correlation id


class Broker:
    """Answers as it is told, to whoever comes."""

    def __init__(self, says: dict[int, Say]) -> None:
        self.says: dict[int, Say] = {VERSIONS: _versions, METADATA: self.metadata(), **says}
        self.asking: dict[int, Callable[[int, bytes], Any]] = {}  # those that look at the request
        self.asked: list[int] = []
        self.guests: list[socket.socket] = []
        self.correlation: int | None = None  # the one to answer with, if it is not the right one
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._door.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def metadata(self, **lies: Any) -> Say:
        kind, topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic

        def say(version: int) -> Any:
            part = topic.MetadataResponsePartition(
                error_code=0, partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1],
                offline_replicas=[],
            )  # fmt: skip
            usual = {
                "brokers": [kind(node_id=1, host="127.0.0.1", port=self.port, rack=None)],
                "topics": [topic(error_code=0, name="t", topic_id=None, is_internal=False, partitions=[part])],
            }
            return MetadataResponse(
                version=version, throttle_time_ms=0, cluster_id="c", controller_id=1, **{**usual, **lies}
            )

        return say

    def close(self) -> None:
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        for each in (self._door, *self.guests):
            each.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                guest, _ = self._door.accept()
                self.guests.append(guest)
                threading.Thread(target=self._answer, args=(guest,), daemon=True).start()

    def _answer(self, guest: socket.socket) -> None:
        stream = guest.makefile("rb")
        with suppress(OSError, struct.error, ValueError):
            while True:
                (size,) = struct.unpack(">i", stream.read(4))
                request = stream.read(size)
                api, version, correlation = struct.unpack_from(">hhi", request)
                self.asked.append(api)
                said = self.asking[api](version, request) if api in self.asking else self.says[api](version)
                number = correlation if self.correlation is None or api == VERSIONS else self.correlation
                if isinstance(said, bytes):
                    body = struct.pack(">i", number) + said
                else:
                    said.with_header(correlation_id=number)
                    body = bytes(said.encode(header=True))
                guest.sendall(struct.pack(">i", len(body)) + body)


def _versions(version: int) -> Any:
    kind = ApiVersionsResponse.ApiVersion
    known = {PRODUCE: 8, FETCH: 12, OFFSETS: 7, METADATA: 12, VERSIONS: 0, CREATE: 7}
    keys = [kind(api_key=key, min_version=0, max_version=most) for key, most in known.items()]
    return ApiVersionsResponse(version=version, error_code=0, api_keys=keys)
