"""One blocking connection to a broker: locked and logged in as the settings say, for one question at a time.

kafka-python knows how every request is written; the sockets are ours, so that there is one place where a connection is
opened.
"""

import itertools
import math
import random
import socket
import struct
import time
from typing import Any, Final

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from twinlog.config.flows import Client as ClientConfig
from twinlog.errors import LockedError, ProtocolError, RefusedError, UnreachableError
from twinlog.kafka import answers, codes
from twinlog.kafka.connection import LARGEST_FRAME
from twinlog.kafka.dial import dial, uses_sasl, uses_tls
from twinlog.kafka.doors import DOORS, key_of
from twinlog.security.handshake import explain
from twinlog.security.keystores import written
from twinlog.security.sasl import login
from twinlog.security.words import one_line

_SIZE: Final = struct.Struct(">i")
_ALERT: Final = 0x1503  # how a TLS alert begins: what a TLS listener answers to plain text
_RENEWED: Final = (0.75, 0.85)  # of a session's life: what is left is time for a long poll to end
_BRIEFEST: Final = 1.0  # seconds: a broker whose sessions are shorter must end them itself
HELLO: Final = 5.0  # seconds for a connection, and for its first answer: longer than any network that is alive


def connect(config: ClientConfig, host: str, port: int, client_id: str, timeout: float = HELLO) -> "Channel":
    """A connection that is ready for questions. Every error but those of the settings names the address.

    May take longer than `timeout`: a token endpoint or a KDC may have to be asked for something to log in with.
    """
    key = key_of(config, host, port)
    DOORS.knock(key)
    try:
        channel = _connected(config, host, port, client_id, timeout)
    except LockedError as error:
        DOORS.refused(key, error)
        raise
    DOORS.opened(key)
    return channel


def _connected(config: ClientConfig, host: str, port: int, client_id: str, timeout: float) -> "Channel":
    sock = dial(config, host, port, timeout)
    try:
        channel = Channel(sock, client_id, timeout)
        if uses_sasl(config):
            _log_in(channel, config, host, timeout)
    except LockedError as error:
        sock.close()
        raise LockedError(f"{host}:{port}: {error}", heals=error.heals) from error
    except ProtocolError as error:
        sock.close()
        raise ProtocolError(f"{host}:{port}: {error}") from error
    except OSError as error:
        sock.close()
        if uses_tls(config) and not isinstance(error, TimeoutError):  # a broker may refuse us only now: see explain
            raise explain(error, host, port, config) from error
        what = "no answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise UnreachableError(f"{host}:{port}: {what}") from error
    except BaseException:
        sock.close()
        raise
    return channel


def _log_in(channel: "Channel", config: ClientConfig, host: str, timeout: float) -> None:
    exchange = login(config, host)
    answer = channel.ask(SaslHandshakeRequest(version=1, mechanism=exchange.mechanism), timeout)
    if answer.error_code == codes.UNSUPPORTED_SASL_MECHANISM:
        others = one_line(", ".join(answer.mechanisms)) or "none"
        raise LockedError(
            f"{written(config, 'sasl.mechanism')} = {exchange.mechanism} is not enabled on this listener, which has "
            f"{others}: choose one of those, or another listener"
        )
    if answer.error_code == codes.ILLEGAL_SASL_STATE:
        raise LockedError(
            f"this listener wants no login: set {written(config, 'security.protocol')} to "
            f"{'SSL' if uses_tls(config) else 'PLAINTEXT'}, or choose another listener"
        )
    if answer.error_code:
        raise LockedError(f"the broker refuses to be logged in to: {codes.name(answer.error_code)}", heals=True)
    token: bytes | None = exchange.first()
    lifetime = 0
    while token is not None:
        said = channel.ask(SaslAuthenticateRequest(auth_bytes=token), timeout)
        if said.error_code:
            raise exchange.refused(said.error_message or codes.name(said.error_code))
        lifetime = getattr(said, "session_lifetime_ms", 0)
        token = exchange.next(bytes(said.auth_bytes))
    if lifetime > 0:
        left = lifetime / 1000 * random.uniform(*_RENEWED)  # noqa: S311  (not a secret)
        channel.renew_at = time.monotonic() + max(left, _BRIEFEST)


class Channel:
    """One blocking connection, with what its broker can do."""

    def __init__(self, sock: socket.socket, client_id: str, timeout: float = HELLO) -> None:
        self.sock = sock
        self.renew_at = math.inf  # when to connect anew, before the broker ends the session
        self._client_id = client_id
        self._correlation = itertools.count(1)
        self.answers = 0
        self.versions: dict[int, tuple[int, int]] = {}
        answer = self.ask(ApiVersionsRequest(version=0), timeout)
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    def close(self) -> None:
        self.sock.close()

    def ask(self, request: Any, timeout: float) -> Any:
        kind = type(request)
        if request.API_VERSION is None:
            request.API_VERSION = self._version(kind)
        request.with_header(correlation_id=next(self._correlation), client_id=self._client_id)
        largest = LARGEST_FRAME if kind is FetchRequest else answers.LARGEST
        body = self.exchange(request.encode(header=True, framed=True), timeout, largest)
        answer_kind = ApiVersionsResponse if kind is ApiVersionsRequest else request.header.get_response_class()
        answer = answers.decode(answer_kind, request.API_VERSION, body)
        self.answers += 1
        return answer

    def exchange(self, frame: bytes, timeout: float, largest: int = answers.LARGEST) -> bytearray:
        """`frame` with its size in front; the answer, of at most `largest` bytes, without."""
        deadline = time.monotonic() + timeout
        self.sock.settimeout(timeout)
        self.sock.sendall(frame)
        (size,) = _SIZE.unpack(self._read(4, deadline))
        if size >> 16 == _ALERT:
            raise LockedError(
                "the listener speaks TLS: set security.protocol to SSL or SASL_SSL, or choose another port"
            )
        if not 4 <= size <= largest:
            raise ProtocolError(f"an answer of {size} bytes: is this port a Kafka listener?")
        answer = self._read(size, deadline)
        if answer[:4] != frame[8:12]:
            raise ProtocolError("an answer to another question")
        return answer

    def _read(self, size: int, deadline: float) -> bytearray:
        memory = bytearray(size)
        view = memoryview(memory)
        while view:
            if (left := deadline - time.monotonic()) <= 0:  # also for one that sends byte after byte
                raise TimeoutError("no answer in time")
            self.sock.settimeout(left)
            got = self.sock.recv_into(view)
            if not got:
                raise ConnectionResetError("the broker closed the connection")
            view = view[got:]
        return memory

    def _version(self, kind: Any) -> int:
        low, high = self.versions.get(kind.API_KEY, (0, -1))
        version = min(high, kind.max_version, _HIGHEST.get(kind, high))
        if version < max(low, 0):
            raise RefusedError(f"the broker does not know {kind.__name__}", codes.UNSUPPORTED_VERSION)
        return int(version)


# Versions beyond these bring nothing that is used here.
_HIGHEST: Final = {FetchRequest: 12, ListOffsetsRequest: 7, InitProducerIdRequest: 4, MetadataRequest: 12}
