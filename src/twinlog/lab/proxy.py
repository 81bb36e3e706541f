"""A network that can fail, between a Kafka client and a cluster.

    with Proxy(cluster) as proxy:
        client = Client(proxy.bootstrap)
        proxy.stall()            # every broker's link
        proxy.links[1].cut()     # broker 1's only

A client bootstraps at the proxy, and must then find no way around it. Brokers say their addresses in many an answer
(Metadata, FindCoordinator, DescribeCluster, and since 3.7 in refusals of Fetch and Produce). To parse these would be to
know every version of each. But our brokers' host is always the same and a port always has four bytes, so an address is
replaced wherever it stands in an answer: no length changes, and that just those 14 bytes stand in a record does not
happen. TLS would hide them, so a proxy is for listeners without.
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

from twinlog.errors import LabError
from twinlog.lab.cluster import Cluster
from twinlog.lab.listeners import Listener
from twinlog.lab.pipes import Direction, Way
from twinlog.lab.ports import HOST, free_port

_PATIENCE = 30.0  # seconds; an order takes microseconds


class Faults:
    """What can be done to one link, or to all: to open connections and to those to come, until it is taken back."""

    def __init__(self, ways: Sequence[Way], mover: "_Mover") -> None:
        self._ways = ways
        self._mover = mover

    @property
    def connections(self) -> int:
        """How many are open."""
        return sum(len(way.connections) for way in self._ways)

    def passed(self, direction: Direction) -> int:
        """How many bytes have reached the other side so far."""
        return sum(way.passed[direction] for way in self._ways)

    def stall(self) -> None:
        """No byte moves in either direction, and no connection ends. New ones are taken, and stall too."""
        self._set(stalled=True)

    def black_hole(self) -> None:
        """Requests pass and answers are dropped: brokers do what they are asked, and the client never learns of it."""
        self._set(deaf=True)

    def resume(self) -> None:
        """Ends `stall` and `black_hole`. A connection that has lost answers is cut: what came next would not fit."""

        def resume(way: Way) -> None:
            way.stalled = way.deaf = False
            way.cut(only_lossy=True)

        self._do(resume)

    def cut(self) -> None:
        """Resets every open connection, on both sides; new ones work."""
        self._do(Way.cut)

    def cut_after(self, count: int, of: Direction = "answers") -> None:
        """Lets so many more bytes pass to (or from) each broker, then resets the connection they came by. Once."""
        self._do(lambda way: way.cut_after.update({of: count}))

    def refuse(self) -> None:
        """New connections are refused; open ones live on."""
        self._do(Way.shut)

    def accept(self) -> None:
        self._do(Way.open)

    def delay(self, seconds: float) -> None:
        """Every byte takes so long, each way: a round trip takes twice that. Nothing gets slower otherwise."""
        self._set(delay=seconds)

    def limit(self, bytes_per_second: float | None) -> None:
        """For each broker, all connections together, in each direction; None lifts it."""
        self._do(lambda way: way.limit(bytes_per_second))

    def _set(self, **treatment: float) -> None:
        def set_all(way: Way) -> None:
            for name, value in treatment.items():
                setattr(way, name, value)

        self._do(set_all)

    def _do(self, change: Callable[[Way], None]) -> None:
        def change_all() -> None:
            for way in self._ways:
                change(way)

        self._mover.do(change_all)


class Proxy(Faults):
    """`links[i]` leads to the broker with the id `i`. To hurt the proxy is to hurt them all."""

    def __init__(self, cluster: Cluster, listener: Listener | None = None) -> None:
        door = listener or cluster.spec.listeners[0]
        if door.tls:
            raise LabError(f"a proxy cannot see the addresses inside {door.name}: name a listener without TLS")
        if door not in cluster.brokers[0].ports:
            raise LabError(f"{cluster.name} has no listener {door.name}: name it when the cluster is made")
        ways = [Way(free_port(), broker.ports[door]) for broker in cluster.brokers]
        addresses = {
            prefix + _address(way.target): prefix + _address(way.port)
            for way in ways
            for prefix in (len(HOST).to_bytes(2), (len(HOST) + 1).to_bytes(1))  # of a string, old and new versions'
        }
        for way in ways:
            way.addresses = addresses
        super().__init__(ways, _Mover(ways, f"proxy to {cluster.name}"))
        self.links = tuple(Faults([way], self._mover) for way in ways)
        self.bootstrap = ",".join(f"{HOST}:{way.port}" for way in ways)
        self._cluster = cluster
        self._listener = door

    def __enter__(self) -> Self:
        self.accept()
        self._mover.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is left: no port, no connection, no thread."""
        self.refuse()
        self.cut()
        self._mover.stop()

    def client_properties(self, user: str | None = None) -> dict[str, str]:
        """As the cluster's, through the proxy."""
        return self._cluster.client_properties(self._listener, user) | {"bootstrap.servers": self.bootstrap}

    def librdkafka_properties(self, user: str | None = None) -> dict[str, str]:
        return self._cluster.librdkafka_properties(self._listener, user) | {"bootstrap.servers": self.bootstrap}


class _Mover:
    """The thread that moves all bytes and does all that is done to them, between two bytes.

    Were it done by others, a byte could slip through behind it, and a socket that is closed while this thread waits
    for it would stay open until it stirs.
    """

    def __init__(self, ways: Sequence[Way], name: str) -> None:
        self._ways = ways
        self._bell, self._button = socket.socketpair()
        for each in (self._bell, self._button):
            each.settimeout(0)
        self._orders: deque[tuple[Callable[[], None], Future[None]]] = deque()
        self._running = True
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def do(self, order: Callable[[], None]) -> None:
        """Returns when it is done."""
        if not self._thread.is_alive():
            order()
            return
        done: Future[None] = Future()
        self._orders.append((order, done))
        with suppress(BlockingIOError):  # it is ringing already
            self._button.send(b"!")
        done.result(_PATIENCE)

    def stop(self) -> None:
        self.do(self._stop)
        if self._thread.ident is not None:
            self._thread.join()
        self._bell.close()
        self._button.close()

    def _stop(self) -> None:
        self._running = False

    def _run(self) -> None:
        while self._running:
            now = time.monotonic()
            asked: dict[tuple[int, int], Callable[[], None]] = {}
            wanted: dict[int, int] = {self._bell.fileno(): select.POLLIN}
            for way in self._ways:
                for each, event, then in way.waiting(now):
                    asked[each.fileno(), event] = then
                    wanted[each.fileno()] = wanted.get(each.fileno(), 0) | event
            poller = select.poll()
            for number, events in wanted.items():
                poller.register(number, events)
            pause = min(way.next_time(now) for way in self._ways) - now
            self._serve(poller.poll(None if pause == float("inf") else max(1, pause * 1000)), asked)
            with suppress(BlockingIOError):
                self._bell.recv(4096)
            while self._orders:
                order, done = self._orders.popleft()
                try:
                    done.set_result(order())
                except OSError as error:
                    done.set_exception(error)

    def _serve(self, stirred: list[tuple[int, int]], asked: dict[tuple[int, int], Callable[[], None]]) -> None:
        for number, events in stirred:
            for event in (select.POLLIN, select.POLLOUT):
                # An error or the end shows itself to whoever reads or writes next.
                if events & (event | select.POLLERR | select.POLLHUP) and (number, event) in asked:
                    asked[number, event]()
        now = time.monotonic()
        for way in self._ways:
            way.flush(now)


def _address(port: int) -> bytes:
    return HOST.encode() + struct.pack(">i", port)
