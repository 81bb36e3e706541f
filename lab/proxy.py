"""A TCP proxy between Kafka clients and a cluster, for network faults.

    with Proxy(cluster) as proxy:
        client = Client(proxy.bootstrap)
        proxy.stall()            # the links to all brokers
        proxy.links[1].cut()     # the link to broker 1 only

A client that bootstraps at the proxy must not bypass it. Many responses contain broker addresses (Metadata,
FindCoordinator, DescribeCluster, and since 3.7 errors of Fetch and Produce). Instead of parsing every version of each,
the proxy replaces an address wherever its bytes occur in a response: the brokers' host is always the same and a port
always takes four bytes, so no length changes, and the same 14 bytes do not occur in a record by chance. Listeners with
TLS cannot be proxied.
"""

import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Self

from lab.cluster import Cluster
from lab.errors import LabError
from lab.listeners import Listener
from lab.ports import HOST, free_port
from lab.proxy_io import IN_FLIGHT, BrokerLink, Direction

_CALL_SECONDS = 30.0  # a call takes microseconds


class Faults:
    """Faults of one link or of all links. They apply to open and new connections until they are revoked."""

    def __init__(self, links: Sequence[BrokerLink], io_thread: "_IoThread") -> None:
        self._links = links
        self._io_thread = io_thread

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return sum(len(link.connections) for link in self._links)

    def passed(self, direction: Direction) -> int:
        """How many bytes have been forwarded in that direction."""
        return sum(link.passed[direction] for link in self._links)

    def stall(self) -> None:
        """Forwards nothing in either direction and closes no connection. New connections are accepted and stall too."""
        self._set(stalled=True)

    def black_hole(self) -> None:
        """Forwards requests and drops responses: brokers execute requests, and the client gets no response."""
        self._set(drops_responses=True)

    def resume(self) -> None:
        """Ends `stall` and `black_hole`. Connections that have lost responses are reset: later ones would not match."""

        def resume(link: BrokerLink) -> None:
            link.stalled = link.drops_responses = False
            link.cut(only_lossy=True)

        self._for_each(resume)

    def cut(self) -> None:
        """Resets all open connections, on both sides; new ones work."""
        self._for_each(BrokerLink.cut)

    def cut_after(self, count: int, of: Direction = "responses") -> None:
        """Once, for each broker: forwards so many more bytes, then resets the connection that carried the last one."""
        self._for_each(lambda link: link.cut_after.update({of: count}))

    def refuse(self) -> None:
        """Refuses new connections; open ones continue."""
        self._for_each(BrokerLink.stop_listening)

    def accept(self) -> None:
        self._for_each(BrokerLink.listen)

    def delay(self, seconds: float, jitter: float = 0.0) -> None:
        """Adds latency in each direction, so twice as much to a round trip, and up to `jitter` seconds more.

        Throughput stays the same up to 8 MB in flight; `limit_in_flight` makes it depend on the latency.
        """
        self._set(delay=seconds, jitter=jitter)

    def limit_in_flight(self, count: int | None) -> None:
        """Limits the bytes that each connection has on their way per direction, as socket buffers do; None: 8 MB."""
        self._set(in_flight=count or IN_FLIGHT)

    def limit(self, bytes_per_second: float | None) -> None:
        """Limits each broker's connections together, per direction; None removes the limit."""
        self._for_each(lambda link: link.limit(bytes_per_second))

    def _set(self, **attributes: float) -> None:
        def set_all(link: BrokerLink) -> None:
            for name, value in attributes.items():
                setattr(link, name, value)

        self._for_each(set_all)

    def _for_each(self, change: Callable[[BrokerLink], None]) -> None:
        def change_all() -> None:
            for link in self._links:
                change(link)

        self._io_thread.call(change_all)


class Proxy(Faults):
    """`links[i]` is the link to the broker with the id `i`. Faults of the proxy itself apply to all links."""

    def __init__(self, cluster: Cluster, listener: Listener | None = None) -> None:
        chosen = listener or cluster.spec.listeners[0]
        if chosen.tls:
            raise LabError(f"cannot proxy listener {chosen.name}: addresses are encrypted; use a listener without TLS")
        if chosen not in cluster.brokers[0].ports:
            raise LabError(f"{cluster.name} has no listener {chosen.name}: add it to the cluster's ClusterSpec")
        links = [BrokerLink(free_port(), broker.ports[chosen]) for broker in cluster.brokers]
        addresses = {
            prefix + _address(link.target): prefix + _address(link.port)
            for link in links
            for prefix in (len(HOST).to_bytes(2), (len(HOST) + 1).to_bytes(1))  # a string's length: classic, compact
        }
        for link in links:
            link.addresses = addresses
        super().__init__(links, _IoThread(links, f"proxy to {cluster.name}"))
        self.links = tuple(Faults([link], self._io_thread) for link in links)
        self.bootstrap = ",".join(f"{HOST}:{link.port}" for link in links)
        self._cluster = cluster
        self._listener = chosen

    def __enter__(self) -> Self:
        self.accept()
        self._io_thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the port and all connections, and ends the thread."""
        self.refuse()
        self.cut()
        self._io_thread.stop()

    def client_properties(self, user: str | None = None) -> dict[str, str]:
        """Those of the cluster, through the proxy."""
        return self._cluster.client_properties(self._listener, user) | {"bootstrap.servers": self.bootstrap}

    def librdkafka_properties(self, user: str | None = None) -> dict[str, str]:
        return self._cluster.librdkafka_properties(self._listener, user) | {"bootstrap.servers": self.bootstrap}


class _IoThread:
    """The thread that forwards all bytes, and applies all faults between two forwards.

    If other threads applied them, bytes could still pass afterwards, and a socket closed while this thread polls it
    would stay open until the poll returns.
    """

    def __init__(self, links: Sequence[BrokerLink], name: str) -> None:
        self._links = links
        self._wakeup_receiver, self._wakeup_sender = socket.socketpair()
        for each in (self._wakeup_receiver, self._wakeup_sender):
            each.settimeout(0)
        self._calls: deque[tuple[Callable[[], None], Future[None]]] = deque()
        self._running = True
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def call(self, function: Callable[[], None]) -> None:
        """Runs the function in the thread and returns when it is done."""
        if not self._thread.is_alive():
            function()
            return
        done: Future[None] = Future()
        self._calls.append((function, done))
        with suppress(BlockingIOError):  # a wake-up is already pending
            self._wakeup_sender.send(b"!")
        done.result(_CALL_SECONDS)

    def stop(self) -> None:
        self.call(self._stop)
        if self._thread.ident is not None:
            self._thread.join()
        self._wakeup_receiver.close()
        self._wakeup_sender.close()

    def _stop(self) -> None:
        self._running = False

    def _run(self) -> None:
        while self._running:
            now = time.monotonic()
            handlers: dict[tuple[int, int], Callable[[], None]] = {}
            interest: dict[int, int] = {self._wakeup_receiver.fileno(): select.POLLIN}
            for link in self._links:
                for each, event, handler in link.pending(now):
                    handlers[each.fileno(), event] = handler
                    interest[each.fileno()] = interest.get(each.fileno(), 0) | event
            poller = select.poll()
            for number, events in interest.items():
                poller.register(number, events)
            pause = min(link.next_time(now) for link in self._links) - now
            self._handle(poller.poll(None if pause == float("inf") else max(1, pause * 1000)), handlers)
            with suppress(BlockingIOError):
                self._wakeup_receiver.recv(4096)
            while self._calls:
                function, done = self._calls.popleft()
                try:
                    done.set_result(function())
                except OSError as error:
                    done.set_exception(error)

    def _handle(self, ready: list[tuple[int, int]], handlers: dict[tuple[int, int], Callable[[], None]]) -> None:
        for number, events in ready:
            for event in (select.POLLIN, select.POLLOUT):
                # The next read or write raises the error, or sees the end of the stream.
                if events & (event | select.POLLERR | select.POLLHUP) and (number, event) in handlers:
                    handlers[number, event]()
        now = time.monotonic()
        for link in self._links:
            link.flush(now)


def _address(port: int) -> bytes:
    return HOST.encode() + struct.pack(">i", port)
