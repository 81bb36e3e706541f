"""A blocking, authenticated connection to a broker, for one request at a time.

kafka-python encodes the requests; sockets are opened by Twinlog, in one place for all connections.
"""

import itertools
import math
import random
import select
import socket
import struct
import sys
import time
from typing import Any, Final

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from twinlog.config.flows import Client as ClientConfig
from twinlog.errors import AuthenticationError, ProtocolError, RefusedError, UnreachableError
from twinlog.kafka import error_codes, response_decoder
from twinlog.kafka.auth_backoff import AUTH_BACKOFF, backoff_key
from twinlog.kafka.connect import open_socket, uses_sasl, uses_tls
from twinlog.kafka.connection import MAX_FRAME_BYTES
from twinlog.security.keystores import written
from twinlog.security.sasl import login
from twinlog.security.tls_handshake import explain
from twinlog.text import one_line

_SIZE: Final = struct.Struct(">i")
_TLS_ALERT: Final = 0x1503  # the first bytes of a TLS alert, with which a TLS listener rejects plaintext
_RENEWED: Final = (0.75, 0.85)  # of a SASL session's lifetime: the rest is time for a long poll to end
_SHORTEST_SESSION: Final = 1.0  # seconds: shorter sessions are not renewed in time
CONNECT_TIMEOUT: Final = 5.0  # seconds to connect, and for the first response


def connect(
    config: ClientConfig, host: str, port: int, client_id: str, timeout: float = CONNECT_TIMEOUT
) -> "BlockingConnection":
    """An authenticated connection. Every error except ConfigError names the address.

    May take longer than `timeout`, to get a token or a Kerberos ticket.
    """
    key = backoff_key(config, host, port)
    AUTH_BACKOFF.check(key)
    try:
        connection = _connected(config, host, port, client_id, timeout)
    except AuthenticationError as error:
        AUTH_BACKOFF.failed(key, error)
        raise
    AUTH_BACKOFF.succeeded(key)
    return connection


def _connected(config: ClientConfig, host: str, port: int, client_id: str, timeout: float) -> "BlockingConnection":
    address = f"{host}:{port}"
    sock = open_socket(config, host, port, timeout)
    try:
        connection = BlockingConnection(sock, client_id, timeout)
        if uses_sasl(config):
            _authenticate(connection, config, host, timeout)
    except AuthenticationError as error:
        sock.close()
        raise AuthenticationError(error.problem, error.advice, address=address, retriable=error.retriable) from error
    except ProtocolError as error:
        sock.close()
        raise ProtocolError(error.problem, error.advice, address=address) from error
    except OSError as error:
        sock.close()
        # With TLS 1.3 a broker may reject our certificate only now: see explain.
        if uses_tls(config) and not isinstance(error, TimeoutError):
            raise explain(error, host, port, config) from error
        what = "timed out" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise UnreachableError(what, address=address) from error
    except BaseException:
        sock.close()
        raise
    return connection


def _authenticate(connection: "BlockingConnection", config: ClientConfig, host: str, timeout: float) -> None:
    exchange = login(config, host)
    response = connection.send(SaslHandshakeRequest(version=1, mechanism=exchange.mechanism), timeout)
    if response.error_code == error_codes.UNSUPPORTED_SASL_MECHANISM:
        enabled = one_line(", ".join(response.mechanisms)) or "none"
        raise AuthenticationError(
            f"{written(config, 'sasl.mechanism')} = {exchange.mechanism} is not enabled on this listener "
            f"(enabled: {enabled})",
            "use an enabled mechanism, or another listener",
        )
    if response.error_code == error_codes.ILLEGAL_SASL_STATE:
        raise AuthenticationError(
            "this listener does not use SASL",
            f"set {written(config, 'security.protocol')} to {'SSL' if uses_tls(config) else 'PLAINTEXT'}, or use "
            "another listener",
        )
    if response.error_code:
        raise AuthenticationError(
            f"SASL handshake failed: {error_codes.name(response.error_code)}", "check the broker's log", retriable=True
        )
    token: bytes | None = exchange.first()
    lifetime = 0
    while token is not None:
        reply = connection.send(SaslAuthenticateRequest(auth_bytes=token), timeout)
        if reply.error_code:
            raise exchange.refused(reply.error_message or error_codes.name(reply.error_code))
        lifetime = getattr(reply, "session_lifetime_ms", 0)
        token = exchange.next(bytes(reply.auth_bytes))
    if lifetime > 0:
        left = lifetime / 1000 * random.uniform(*_RENEWED)  # noqa: S311  (not a secret)
        connection.renew_at = time.monotonic() + max(left, _SHORTEST_SESSION)


_TCP_MIN_RTT: Final = 148  # where struct tcp_info has tcpi_min_rtt, in microseconds


class BlockingConnection:
    """A blocking connection, with its broker's API versions."""

    def __init__(self, sock: socket.socket, client_id: str, timeout: float = CONNECT_TIMEOUT) -> None:
        self.sock = sock
        self.renew_at = math.inf  # when to reconnect, before the broker ends the SASL session
        self._client_id = client_id
        self._correlation = itertools.count(1)
        self.responses = 0
        self.versions: dict[int, tuple[int, int]] = {}
        self.round_trip = math.inf  # seconds: the shortest measured
        self._ask_versions(timeout)

    def _ask_versions(self, timeout: float) -> None:
        started = time.monotonic()
        response = self.send(ApiVersionsRequest(version=0), timeout)
        self.round_trip = min(self.round_trip, time.monotonic() - started)
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    def measure_round_trip(self, threshold: float, timeout: float = CONNECT_TIMEOUT) -> None:
        """Repeats a measurement above the threshold, since the first response of a busy broker may take long."""
        for _ in range(2):
            if self.round_trip >= threshold:
                self._ask_versions(timeout)

    @property
    def network_round_trip(self) -> float:
        """Without the time that the broker takes, as the kernel measured it; other systems than Linux: `round_trip`."""
        try:
            info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_MIN_RTT + 4)
        except (AttributeError, OSError):
            return self.round_trip
        if len(info) < _TCP_MIN_RTT + 4:
            return self.round_trip
        return int.from_bytes(info[_TCP_MIN_RTT:], sys.byteorder) / 1e6

    def close(self) -> None:
        self.sock.close()

    @property
    def closed(self) -> bool:
        """By the broker, if anything can be read between two requests; or by ourselves."""
        if self.sock.fileno() < 0:
            return True
        readable = select.poll()
        readable.register(self.sock, select.POLLIN)
        return bool(readable.poll(0))

    def send(self, request: Any, timeout: float) -> Any:
        kind = type(request)
        if request.API_VERSION is None:
            request.API_VERSION = self._version(kind)
        request.with_header(correlation_id=next(self._correlation), client_id=self._client_id)
        largest = MAX_FRAME_BYTES if kind is FetchRequest else response_decoder.MAX_RESPONSE_BYTES
        body = self.exchange(request.encode(header=True, framed=True), timeout, largest)
        response_kind = ApiVersionsResponse if kind is ApiVersionsRequest else request.header.get_response_class()
        response = response_decoder.decode(response_kind, request.API_VERSION, body)
        self.responses += 1
        return response

    def exchange(self, frame: bytes, timeout: float, largest: int = response_decoder.MAX_RESPONSE_BYTES) -> bytearray:
        """Sends `frame`, which begins with its size, and returns the response of at most `largest` bytes without it."""
        deadline = time.monotonic() + timeout
        self.sock.settimeout(timeout)
        self.sock.sendall(frame)
        (size,) = _SIZE.unpack(self._read(4, deadline))
        if size >> 16 == _TLS_ALERT:
            raise AuthenticationError(
                "the listener uses TLS", "set security.protocol to SSL or SASL_SSL, or use another port"
            )
        if not 4 <= size <= largest:
            raise ProtocolError(f"response of {size} bytes", "check that the port is a Kafka listener")
        response = self._read(size, deadline)
        if response[:4] != frame[8:12]:
            raise ProtocolError("correlation id mismatch")
        return response

    def _read(self, size: int, deadline: float) -> bytearray:
        memory = bytearray(size)
        view = memoryview(memory)
        while view:
            if (left := deadline - time.monotonic()) <= 0:  # also if the broker sends byte by byte
                raise TimeoutError("timed out")
            self.sock.settimeout(left)
            got = self.sock.recv_into(view)
            if not got:
                raise ConnectionResetError("connection closed by the broker")
            view = view[got:]
        return memory

    def _version(self, kind: Any) -> int:
        low, high = self.versions.get(kind.API_KEY, (0, -1))
        version = min(high, kind.max_version, _HIGHEST.get(kind, high))
        if version < max(low, 0):
            raise RefusedError(f"the broker does not support {kind.__name__}", error_codes.UNSUPPORTED_VERSION)
        return int(version)


# Later versions have no fields that are used here.
_HIGHEST: Final = {FetchRequest: 12, ListOffsetsRequest: 7, InitProducerIdRequest: 4, MetadataRequest: 12}
