"""A fake broker with scripted responses, also such as no real broker sends."""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

PRODUCE, FETCH, OFFSETS, METADATA, VERSIONS, CREATE = 0, 1, 2, 3, 18, 19
Responder = Callable[[int], Any]  # a response for a version: kafka-python's, or the bytes after the correlation id


class Broker:
    """Serves any number of connections."""

    def __init__(self, responders: dict[int, Responder]) -> None:
        self.responders: dict[int, Responder] = {VERSIONS: _versions, METADATA: self.metadata(), **responders}
        self.handlers: dict[int, Callable[[int, bytes], Any]] = {}  # responders that get the request
        self.requests: list[int] = []
        self.connections: list[socket.socket] = []
        self.correlation: int | None = None  # for responses, instead of the request's
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def metadata(self, **changes: Any) -> Responder:
        kind, topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic

        def respond(version: int) -> Any:
            part = topic.MetadataResponsePartition(
                error_code=0, partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1],
                offline_replicas=[],
            )  # fmt: skip
            usual = {
                "brokers": [kind(node_id=1, host="127.0.0.1", port=self.port, rack=None)],
                "topics": [topic(error_code=0, name="t", topic_id=None, is_internal=False, partitions=[part])],
            }
            return MetadataResponse(
                version=version, throttle_time_ms=0, cluster_id="c", controller_id=1, **{**usual, **changes}
            )

        return respond

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for each in (self._listener, *self.connections):
            each.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections.append(connection)
                threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        with suppress(OSError, struct.error, ValueError):
            while True:
                (size,) = struct.unpack(">i", stream.read(4))
                request = stream.read(size)
                api, version, correlation = struct.unpack_from(">hhi", request)
                self.requests.append(api)
                response = (
                    self.handlers[api](version, request) if api in self.handlers else self.responders[api](version)
                )
                number = correlation if self.correlation is None or api == VERSIONS else self.correlation
                if isinstance(response, bytes):
                    body = struct.pack(">i", number) + response
                else:
                    response.with_header(correlation_id=number)
                    body = bytes(response.encode(header=True))
                connection.sendall(struct.pack(">i", len(body)) + body)


def _versions(version: int) -> Any:
    kind = ApiVersionsResponse.ApiVersion
    supported = {PRODUCE: 8, FETCH: 12, OFFSETS: 7, METADATA: 12, VERSIONS: 0, CREATE: 7}
    keys = [kind(api_key=key, min_version=0, max_version=highest) for key, highest in supported.items()]
    return ApiVersionsResponse(version=version, error_code=0, api_keys=keys)
