"""A target that stores batches but sends wrong responses: no duplicates, and other partitions are not affected."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from operator import gt
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.ports import HOST
from tests.kafka.fake_broker import PRODUCE
from tests.replicate.conftest import Running
from twinlog.kafka import error_codes, produce
from twinlog.kafka.produce import Outcome
from twinlog.model import TopicPartition

pytestmark = pytest.mark.broker

_OUTCOME = struct.Struct(">ihqqqih")
_INT = struct.Struct(">i")


class TamperingProxy:
    """A proxy for a cluster of one broker, which changes its Produce responses."""

    def __init__(self, cluster: Cluster) -> None:
        self._real = int(cluster.bootstrap().rpartition(":")[2])
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self.tamper: Callable[[bytes], bytes] | None = None
        self.responses = 0
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection((HOST, self._real))
                self._open += [client, broker]
                requests: dict[int, int] = {}
                threading.Thread(target=self._copy, args=(client, broker, requests, False), daemon=True).start()
                threading.Thread(target=self._copy, args=(broker, client, requests, True), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, requests: dict[int, int], responses: bool) -> None:
        stream = source.makefile("rb")
        with suppress(OSError, struct.error):
            while True:
                (size,) = struct.unpack(">i", stream.read(4))
                frame = stream.read(size)
                if responses:
                    self._forward_response(sink, frame, requests.pop(struct.unpack_from(">i", frame)[0]))
                else:
                    api, _, correlation = struct.unpack_from(">hhi", frame)
                    requests[correlation] = api
                    sink.sendall(struct.pack(">i", size) + frame)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _forward_response(self, sink: socket.socket, frame: bytes, api: int) -> None:
        # As lab/proxy.py: an address has the same length whatever the port.
        frame = frame.replace(_address(self._real), _address(self.port))
        data = struct.pack(">i", len(frame)) + frame
        if api == PRODUCE:
            self.responses += 1
            if self.tamper is not None:
                data = self.tamper(frame)
        sink.sendall(data)


def _address(port: int) -> bytes:
    return HOST.encode() + struct.pack(">i", port)


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def about(prefix: str, change: Callable[[Outcome], Outcome]) -> Callable[[bytes], bytes]:
    """The response, with another outcome for the partitions of some topics."""

    def tampered(frame: bytes) -> bytes:
        response = produce.decode(memoryview(frame))
        topics: dict[str, list[Outcome]] = {}
        for outcome in response.outcomes:
            changed = change(outcome) if prefix in outcome.topic else outcome
            topics.setdefault(changed.topic, []).append(changed)
        body = bytearray(frame[:4] + _INT.pack(len(topics)))
        for topic, outcomes in topics.items():
            body += struct.pack(">h", len(topic)) + topic.encode() + _INT.pack(len(outcomes))
            for each in outcomes:
                body += _OUTCOME.pack(each.partition, each.error, each.base_offset, -1, each.log_start, 0, -1)
        return framed(bytes(body) + _INT.pack(response.throttle_ms))

    return tampered


# Changes to a whole response: the outcome of every partition is unknown
FRAMES: dict[str, Callable[[bytes], bytes]] = {
    "another's answer": lambda frame: framed(b"\x7f" + frame[1:]),
    "cut short": lambda frame: framed(frame[:-9]),
    "nothing in it": lambda frame: framed(frame[:4]),
    "endless": lambda frame: struct.pack(">i", (1 << 31) - 1) + frame,
    "negative": lambda frame: struct.pack(">i", -5) + frame,
    "about others": about("", lambda outcome: outcome._replace(topic="x" + outcome.topic)),
    "about few": lambda frame: framed(frame[:4] + bytes(8)),
    "many topics": lambda frame: framed(frame[:4] + b"\x7f\xff\xff\xff" + frame[8:]),
    "nonsense": lambda frame: framed(frame[:4] + b"\xff" * 200),
}
# Changes to the outcome of one partition
OUTCOMES: dict[str, Callable[[Outcome], Outcome]] = {
    "behind": lambda outcome: outcome._replace(base_offset=outcome.base_offset - 3),
    "none": lambda outcome: outcome._replace(base_offset=-1),
    "far": lambda outcome: outcome._replace(base_offset=(1 << 63) - 1),
    "an unknown error": lambda outcome: outcome._replace(error=9999),
    "refused": lambda outcome: outcome._replace(error=error_codes.INVALID_RECORD),
    "moved": lambda outcome: outcome._replace(error=6),
}


def _recoveries(running: Running) -> int:
    return sum(each.report.counters.recoveries for each in running.relay.partitions)


@pytest.fixture
def proxy(eu: Cluster) -> Iterator[TamperingProxy]:
    made = TamperingProxy(eu)
    yield made
    made.close()


def test_malformed_responses_cause_no_loss_and_no_duplicates(
    us: Cluster, eu: Cluster, proxy: TamperingProxy, topic: str, mirror: Any, writer: Any
) -> None:
    us.create_topic(topic, 3)
    flow = mirror(us, eu, topic, eu__bootstrap__servers=f"{HOST}:{proxy.port}")
    with flow.start() as running, writer(us, topic, 3, rate=500):

        def acked() -> list[int]:
            return [each.target.acked_position for each in running.relay.partitions if each.tp.topic == topic]

        running.until_running()
        for name, tamper in FRAMES.items():
            before = _recoveries(running)
            proxy.tamper = tamper
            running.until(lambda before=before: _recoveries(running) > before, name)
            proxy.tamper = None
            at = acked()
            running.until(lambda at=at: all(map(gt, acked(), at)), name)
    with flow.start():
        flow.until_equal(topic)


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_wrong_outcome_affects_only_its_partition(
    name: str, us: Cluster, eu: Cluster, proxy: TamperingProxy, topic: str, mirror: Any, writer: Any
) -> None:
    for each in ("good", "bad"):
        us.create_topic(f"{topic}-{each}")
    flow = mirror(us, eu, f"{topic}-.*", eu__bootstrap__servers=f"{HOST}:{proxy.port}")
    with flow.start() as running, writer(us, f"{topic}-good", rate=500), writer(us, f"{topic}-bad", rate=500):
        running.until_running()
        good, bad = running[f"{topic}-good"], running[f"{topic}-bad"]
        proxy.tamper = about(f"{topic}-bad", OUTCOMES[name])
        running.until(
            lambda: bad.report.counters.recoveries > 1 or bool(bad.report.error), "the wrong outcome is detected"
        )
        before, at = proxy.responses, good.target.acked_position
        time.sleep(1)
        assert good.target.acked_position > at
        assert good.report.counters.recoveries == 0
        assert proxy.responses - before < 400  # no busy loop
        proxy.tamper = None
        assert TopicPartition(f"{topic}-bad", 0) == bad.tp
    with flow.start():
        flow.until_equal(f"{topic}-good", f"{topic}-bad")
