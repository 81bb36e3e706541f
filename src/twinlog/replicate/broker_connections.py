"""Non-blocking connections to the brokers of one cluster, with reconnect and reauthentication."""

import math
import selectors
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

from twinlog.config.flows import Client as ClientConfig
from twinlog.errors import TwinlogError
from twinlog.kafka.blocking_connection import BlockingConnection, connect
from twinlog.kafka.connection import MAX_FRAME_BYTES, Buffer, Connection, Pool
from twinlog.replicate.connection_count import LONG_ROUND_TRIP
from twinlog.replicate.loop_executor import LoopExecutor

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0


@dataclass(slots=True, eq=False)
class BrokerConnection:
    node: int
    connection: Connection | None = None
    connecting: bool = False
    retry_at: float = 0.0
    failures: int = 0
    muted_until: float = 0.0  # nothing is sent before (throttle_time_ms)
    round_trip: float = 0.0  # seconds, measured when it was opened
    is_further: bool = False  # one of several to a broker that is known to be far away
    last_activity_at: float = 0.0  # when the first open request was sent, or the last response came
    renew_at: float = math.inf  # when to open a successor, before the session ends (connections.max.reauth.ms)
    successor: BlockingConnection | None = (
        None  # replaces `connection` once it has no open requests; none are sent then
    )


L = TypeVar("L", bound=BrokerConnection)


class BrokerConnections(ABC, Generic[L]):
    """Connections by broker id. Subclasses send the requests and handle the responses."""

    connection_class: ClassVar[type[Any]]
    largest_answer: ClassVar[int] = MAX_FRAME_BYTES
    # Whether the round trip of a connection is that of the network alone. A busy broker nearby is not far away, but
    # behind a proxy a far one seems to be near.
    network_round_trip = True

    def __init__(
        self,
        *,
        alias: str,
        config: ClientConfig,
        client_id: str,
        selector: selectors.BaseSelector,
        executor: LoopExecutor,
        request_timeout: float,
    ) -> None:
        self.alias = alias
        self.config = config
        self.client_id = client_id
        self.connections: dict[int | tuple[int, int], L] = {}  # by broker id; further ones: id and number
        self.brokers: dict[int, tuple[str, int]] = {}
        self.stopping = False
        self.pool = Pool(max_idle=32 << 20)
        self._selector = selector
        self._executor = executor
        self._request_timeout = request_timeout  # seconds without a response after which a connection is closed

    def broker(self, node: int) -> L:
        if node not in self.connections:
            self.connections[node] = self.connection_class(node)
        return self.connections[node]

    def connect(self, broker: L, now: float) -> None:
        if broker.connecting or broker.connection is not None or now < broker.retry_at or self.stopping:
            return
        address = self.brokers.get(broker.node)
        if address is None:
            broker.retry_at = now + _FIRST_PAUSE
            self.failed(broker, f"cluster {self.alias}: broker {broker.node} is not in the metadata; retrying")
            return
        broker.connecting = True
        self._connect_in_thread(broker, address, lambda blocking, error: self._connected(broker, blocking, error))

    def _connect_in_thread(
        self, broker: L, address: tuple[str, int], done: Callable[[BlockingConnection | None, Exception | None], None]
    ) -> None:
        def work() -> BlockingConnection:
            blocking = connect(self.config, *address, self.client_id)
            try:
                if not broker.is_further:
                    blocking.measure_round_trip(LONG_ROUND_TRIP)
            except (OSError, TwinlogError):
                blocking.close()
                raise
            return blocking

        self._executor.run(work, done)

    def _connected(self, broker: L, blocking: BlockingConnection | None, error: Exception | None) -> None:
        broker.connecting = False
        if blocking is None:
            broker.failures += 1
            broker.retry_at = time.monotonic() + min(_FIRST_PAUSE * 2 ** min(broker.failures, 10), _LONGEST_PAUSE)
            self.failed(broker, str(error))
            return
        if self.stopping or not any(each is broker for each in self.connections.values()):
            blocking.close()
            return
        self._use(broker, blocking)
        try:
            self.opened(broker, blocking.versions)
        except TwinlogError as unusable:  # must not affect the other brokers
            self.drop(broker, str(unusable))
            broker.failures += 1
            broker.retry_at = time.monotonic() + _LONGEST_PAUSE
        else:
            broker.failures = 0

    def _use(self, broker: L, blocking: BlockingConnection) -> None:
        blocking.sock.settimeout(0)
        broker.connection = Connection(blocking.sock, self.pool, self.largest_answer)
        broker.renew_at = blocking.renew_at
        broker.round_trip = blocking.network_round_trip if self.network_round_trip else blocking.round_trip
        broker.last_activity_at = time.monotonic()
        self._selector.register(blocking.sock, selectors.EVENT_READ, (self, broker))

    def _renew(self, broker: L) -> None:
        """Reauthenticates on a second connection, while the first is still used."""
        address = self.brokers.get(broker.node)
        if address is None or broker.connecting:
            return
        broker.connecting = True

        def done(blocking: BlockingConnection | None, error: Exception | None) -> None:  # noqa: ARG001  # the old one still works
            broker.connecting = False
            if blocking is None:
                broker.renew_at = time.monotonic() + _LONGEST_PAUSE
            elif self.stopping or broker.connection is None:
                blocking.close()
            else:
                broker.successor = blocking
                self.pump(broker)

        self._connect_in_thread(broker, address, done)

    def can_send(self, broker: L) -> bool:
        """Whether requests may be sent. Switches to the successor, if any, once no request is open."""
        assert broker.connection is not None
        if broker.successor is None:
            return True
        if broker.connection.waiting or broker.connection.unsent:
            return False
        blocking, broker.successor = broker.successor, None
        self._selector.unregister(broker.connection.sock)
        broker.connection.close()
        self._use(broker, blocking)
        return True

    def send(
        self,
        broker: L,
        parts: Sequence[bytes | bytearray | memoryview],
        token: Any,
        *,
        withhold_last_byte: bool = False,
    ) -> bool:
        """Whether the connection is still open."""
        connection = broker.connection
        assert connection is not None
        if not connection.waiting:
            broker.last_activity_at = time.monotonic()
        return self._written(broker, lambda: connection.send(parts, token, withhold_last_byte=withhold_last_byte))

    def complete(self, broker: L) -> bool:
        """Sends the byte that was withheld. Whether the connection is still open."""
        assert broker.connection is not None
        broker.last_activity_at = time.monotonic()
        return self._written(broker, broker.connection.complete)

    def _written(self, broker: L, write: Callable[[], None]) -> bool:
        connection = broker.connection
        assert connection is not None
        try:
            write()
        except OSError as error:
            self.drop(broker, error.strerror or str(error))
            return False
        if connection.unsent:
            self._selector.modify(connection.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, (self, broker))
        return True

    def ready(self, broker: L, mask: int) -> None:
        """The socket is readable or writable."""
        connection = broker.connection
        if connection is None:
            return
        try:
            # A large request or response may take longer than the timeout over a slow link.
            if mask & selectors.EVENT_READ:
                broker.last_activity_at = time.monotonic()
            if mask & selectors.EVENT_WRITE:
                if connection.flush():
                    broker.last_activity_at = time.monotonic()
                if not connection.unsent:
                    self._selector.modify(connection.sock, selectors.EVENT_READ, (self, broker))
                    self.flushed(broker)
                    if broker.connection is not connection:
                        return
            responses = connection.receive() if mask & selectors.EVENT_READ else []
        except (OSError, TwinlogError) as error:
            self.drop(broker, getattr(error, "strerror", None) or str(error))
            return
        for token, buffer in responses:
            try:
                self.answered(broker, token, buffer)
            except TwinlogError as error:
                self.drop(broker, str(error))
                return

    def check(self, now: float) -> None:
        """Closes connections that time out, reopens those that failed, renews those whose session ends."""
        for broker in list(self.connections.values()):
            if broker.connection is None:
                self.pump(broker)
            elif broker.connection.waiting and now - broker.last_activity_at > self._request_timeout:
                self.drop(broker, f"no response for {self._request_timeout:.0f} s; reconnecting")
            elif now >= broker.renew_at and broker.successor is None:
                self._renew(broker)
            elif broker.muted_until and now >= broker.muted_until:
                broker.muted_until = 0.0
                self.pump(broker)

    def connections_to(self, node: int) -> list[L]:
        return [each for each in self.connections.values() if each.node == node]

    def reconnect(self, node: int, reason: str) -> None:
        for broker in self.connections_to(node):
            self.drop(broker, reason)

    def drop(self, broker: L, reason: str) -> None:
        if broker.connection is not None:
            tokens = self.disconnect(broker)
            broker.retry_at = time.monotonic() + _FIRST_PAUSE
            self.lost(broker, tokens, f"cluster {self.alias}: broker {broker.node}: {reason}")

    def disconnect(self, broker: L) -> list[Any]:
        """Closes the connection, without calling `lost`. Returns the tokens of its open requests."""
        connection, broker.connection = broker.connection, None
        assert connection is not None
        self._selector.unregister(connection.sock)
        connection.close()
        self._close_successor(broker)
        return list(connection.waiting)

    def close(self) -> None:
        self.stopping = True
        for broker in self.connections.values():
            if broker.connection is not None:
                self._selector.unregister(broker.connection.sock)
                broker.connection.close()
                broker.connection = None
            self._close_successor(broker)

    @staticmethod
    def _close_successor(broker: BrokerConnection) -> None:
        if broker.successor is not None:
            broker.successor.close()
            broker.successor = None

    def flushed(self, broker: L) -> None:
        """Everything has been written to the socket."""

    @abstractmethod
    def opened(self, broker: L, versions: dict[int, tuple[int, int]]) -> None:
        """A connection was opened; `versions` are the API versions of its broker. A TwinlogError closes it."""

    @abstractmethod
    def answered(self, broker: L, token: Any, buffer: Buffer) -> None:
        """Handles a response and releases the buffer. A TwinlogError closes the connection."""

    @abstractmethod
    def lost(self, broker: L, tokens: list[Any], reason: str) -> None:
        """The connection was closed; the requests with these tokens get no response."""

    @abstractmethod
    def failed(self, broker: L, reason: str) -> None:
        """No connection could be opened."""

    @abstractmethod
    def pump(self, broker: L) -> None:
        """Sends what can be sent; connects if needed."""
