"""The brokers of one cluster as the loop sees them: connected, connecting, or to be tried again later."""

import math
import selectors
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

from twinlog.config.flows import Client as ClientConfig
from twinlog.errors import TwinlogError
from twinlog.kafka.channel import Channel, connect
from twinlog.kafka.connection import LARGEST_FRAME, Buffer, Connection, Pool
from twinlog.pipeline.errands import Errands

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0


@dataclass(slots=True, eq=False)
class Link:
    node: int
    connection: Connection | None = None
    connecting: bool = False
    retry_at: float = 0.0
    failures: int = 0
    quiet_until: float = 0.0  # the broker asked for silence (throttle_time_ms)
    heard_at: float = 0.0  # when the oldest open request was sent, or an answer came
    renew_at: float = math.inf  # when a successor is wanted, since the session ends (`connections.max.reauth.ms`)
    successor: Channel | None = None  # takes over when every open request is answered; until then nothing is sent


L = TypeVar("L", bound=Link)


class Links(ABC, Generic[L]):
    """Connections by broker. Subclasses say what is sent and what an answer means."""

    link_class: ClassVar[type[Any]]
    largest_answer: ClassVar[int] = LARGEST_FRAME

    def __init__(
        self,
        *,
        alias: str,
        config: ClientConfig,
        client_id: str,
        selector: selectors.BaseSelector,
        errands: Errands,
        patience: float,
    ) -> None:
        self.alias = alias
        self.config = config
        self.client_id = client_id
        self.links: dict[int, L] = {}
        self.brokers: dict[int, tuple[str, int]] = {}
        self.stopping = False
        self.pool = Pool(keep=32 << 20)
        self._selector = selector
        self._errands = errands
        self._patience = patience  # seconds without an answer after which a connection is given up

    def link(self, node: int) -> L:
        if node not in self.links:
            self.links[node] = self.link_class(node)
        return self.links[node]

    def connect(self, link: L, now: float) -> None:
        if link.connecting or link.connection is not None or now < link.retry_at or self.stopping:
            return
        address = self.brokers.get(link.node)
        if address is None:
            link.retry_at = now + _FIRST_PAUSE
            self.failed(link, f"broker {link.node} of {self.alias} is not known")
            return
        link.connecting = True
        self._dial(address, lambda channel, error: self._connected(link, channel, error))

    def _dial(self, address: tuple[str, int], done: Callable[[Channel | None, Exception | None], None]) -> None:
        self._errands.run(lambda: connect(self.config, *address, self.client_id), done)

    def _connected(self, link: L, channel: Channel | None, error: Exception | None) -> None:
        link.connecting = False
        if channel is None:
            link.failures += 1
            link.retry_at = time.monotonic() + min(_FIRST_PAUSE * 2 ** min(link.failures, 10), _LONGEST_PAUSE)
            self.failed(link, str(error))
            return
        if self.stopping:
            channel.close()
            return
        self._use(link, channel)
        try:
            self.opened(link, channel.versions)
        except TwinlogError as refusal:  # one broker that cannot be used is no reason to leave the others
            self.drop(link, str(refusal))
            link.failures += 1
            link.retry_at = time.monotonic() + _LONGEST_PAUSE
        else:
            link.failures = 0

    def _use(self, link: L, channel: Channel) -> None:
        channel.sock.settimeout(0)
        link.connection = Connection(channel.sock, self.pool, self.largest_answer)
        link.renew_at = channel.renew_at
        link.heard_at = time.monotonic()
        self._selector.register(channel.sock, selectors.EVENT_READ, (self, link))

    def _renew(self, link: L) -> None:
        """Logs in anew, on another connection: nothing stands still meanwhile."""
        address = self.brokers.get(link.node)
        if address is None or link.connecting:
            return
        link.connecting = True

        def done(channel: Channel | None, error: Exception | None) -> None:  # noqa: ARG001  # the old one still works
            link.connecting = False
            if channel is None:
                link.renew_at = time.monotonic() + _LONGEST_PAUSE
            elif self.stopping or link.connection is None:
                channel.close()
            else:
                link.successor = channel
                self.pump(link)

        self._dial(address, done)

    def free(self, link: L) -> bool:
        """Whether requests may be sent. Where a successor waits, it takes over as soon as there is no open request."""
        assert link.connection is not None
        if link.successor is None:
            return True
        if link.connection.waiting or link.connection.unsent:
            return False
        channel, link.successor = link.successor, None
        self._selector.unregister(link.connection.sock)
        link.connection.close()
        self._use(link, channel)
        return True

    def send(self, link: L, parts: Sequence[bytes | bytearray | memoryview], token: Any) -> bool:
        """Whether the connection stands."""
        connection = link.connection
        assert connection is not None
        if not connection.waiting:
            link.heard_at = time.monotonic()
        try:
            connection.send(parts, token)
        except OSError as error:
            self.drop(link, error.strerror or str(error))
            return False
        if connection.unsent:
            self._selector.modify(connection.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, (self, link))
        return True

    def ready(self, link: L, mask: int) -> None:
        """The selector says that the socket can be read or written."""
        connection = link.connection
        if connection is None:
            return
        try:
            if mask & selectors.EVENT_WRITE:
                connection.flush()
                if not connection.unsent:
                    self._selector.modify(connection.sock, selectors.EVENT_READ, (self, link))
            answers = connection.receive() if mask & selectors.EVENT_READ else []
        except (OSError, TwinlogError) as error:
            self.drop(link, getattr(error, "strerror", None) or str(error))
            return
        if not answers:
            return
        link.heard_at = time.monotonic()
        for token, buffer in answers:
            try:
                self.answered(link, token, buffer)
            except TwinlogError as error:
                self.drop(link, str(error))
                return

    def check(self, now: float) -> None:
        """Connections that have been silent for too long are given up; those that failed are tried again."""
        for link in list(self.links.values()):
            if link.connection is None:
                self.pump(link)
            elif link.connection.waiting and now - link.heard_at > self._patience:
                self.drop(link, f"no answer for {self._patience:.0f} s")
            elif now >= link.renew_at and link.successor is None:
                self._renew(link)
            elif link.quiet_until and now >= link.quiet_until:
                link.quiet_until = 0.0
                self.pump(link)

    def drop(self, link: L, reason: str) -> None:
        connection = link.connection
        if connection is None:
            return
        self._selector.unregister(connection.sock)
        link.connection = None
        link.retry_at = time.monotonic() + _FIRST_PAUSE
        tokens = list(connection.waiting)
        connection.close()
        self._forgo(link)
        self.lost(link, tokens, f"broker {link.node} of {self.alias}: {reason}")

    def close(self) -> None:
        self.stopping = True
        for link in self.links.values():
            if link.connection is not None:
                self._selector.unregister(link.connection.sock)
                link.connection.close()
                link.connection = None
            self._forgo(link)

    @staticmethod
    def _forgo(link: Link) -> None:
        if link.successor is not None:
            link.successor.close()
            link.successor = None

    @abstractmethod
    def opened(self, link: L, versions: dict[int, tuple[int, int]]) -> None:
        """A connection stands; `versions` is what its broker speaks."""

    @abstractmethod
    def answered(self, link: L, token: Any, buffer: Buffer) -> None:
        """The buffer is the callee's, to be released. A TwinlogError gives the connection up."""

    @abstractmethod
    def lost(self, link: L, tokens: list[Any], reason: str) -> None:
        """The connection is gone, and with it the answers to `tokens`."""

    @abstractmethod
    def failed(self, link: L, reason: str) -> None:
        """No connection could be had."""

    @abstractmethod
    def pump(self, link: L) -> None:
        """Sends what can be sent; connects if there is need."""
