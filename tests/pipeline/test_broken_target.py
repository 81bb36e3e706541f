"""A target whose broker stores what it is sent, and then lies about it: others are not held up, nothing is doubled."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from operator import gt
from typing import Any

import pytest
from tests.kafka.broken import PRODUCE
from tests.pipeline.conftest import Running

from twinlog.kafka import codes, produce
from twinlog.kafka.produce import Outcome
from twinlog.lab.cluster import Cluster
from twinlog.lab.ports import HOST
from twinlog.model import TopicPartition

pytestmark = pytest.mark.broker

_OUTCOME = struct.Struct(">ihqqqih")
_TELLS = struct.Struct(">i")


class Liar:
    """Stands before a cluster of one broker, and changes its answers to Produce."""

    def __init__(self, cluster: Cluster) -> None:
        self._real = int(cluster.bootstrap().rpartition(":")[2])
        self._door = socket.create_server((HOST, 0))
        self.port = int(self._door.getsockname()[1])
        self.lie: Callable[[bytes], bytes] | None = None
        self.answers = 0
        self._open: list[socket.socket] = [self._door]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                guest, _ = self._door.accept()
                host = socket.create_connection((HOST, self._real))
                self._open += [guest, host]
                asked: dict[int, int] = {}
                threading.Thread(target=self._move, args=(guest, host, asked, False), daemon=True).start()
                threading.Thread(target=self._move, args=(host, guest, asked, True), daemon=True).start()

    def _move(self, ear: socket.socket, mouth: socket.socket, asked: dict[int, int], answers: bool) -> None:
        stream = ear.makefile("rb")
        with suppress(OSError, struct.error):
            while True:
                (size,) = struct.unpack(">i", stream.read(4))
                frame = stream.read(size)
                if answers:
                    self._tell(mouth, frame, asked.pop(struct.unpack_from(">i", frame)[0]))
                else:
                    api, _, correlation = struct.unpack_from(">hhi", frame)
                    asked[correlation] = api
                    mouth.sendall(struct.pack(">i", size) + frame)
        for each in (ear, mouth):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _tell(self, mouth: socket.socket, frame: bytes, api: int) -> None:
        # As lab/proxy.py: an address has the same length whatever the port.
        frame = frame.replace(_address(self._real), _address(self.port))
        said = struct.pack(">i", len(frame)) + frame
        if api == PRODUCE:
            self.answers += 1
            if self.lie is not None:
                said = self.lie(frame)
        mouth.sendall(said)


def _address(port: int) -> bytes:
    return HOST.encode() + struct.pack(">i", port)


def whole(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def about(prefix: str, change: Callable[[Outcome], Outcome]) -> Callable[[bytes], bytes]:
    """The answer, with another outcome for the partitions of some topics."""

    def lie(frame: bytes) -> bytes:
        answer = produce.decode(memoryview(frame))
        topics: dict[str, list[Outcome]] = {}
        for outcome in answer.outcomes:
            told = change(outcome) if prefix in outcome.topic else outcome
            topics.setdefault(told.topic, []).append(told)
        body = bytearray(frame[:4] + _TELLS.pack(len(topics)))
        for topic, outcomes in topics.items():
            body += struct.pack(">h", len(topic)) + topic.encode() + _TELLS.pack(len(outcomes))
            for each in outcomes:
                body += _OUTCOME.pack(each.partition, each.error, each.base_offset, -1, each.log_start, 0, -1)
        return whole(bytes(body) + _TELLS.pack(answer.throttle_ms))

    return lie


# What is told of the whole request: nobody knows what became of any partition of it
FRAMES: dict[str, Callable[[bytes], bytes]] = {
    "another's answer": lambda frame: whole(b"\x7f" + frame[1:]),
    "cut short": lambda frame: whole(frame[:-9]),
    "nothing in it": lambda frame: whole(frame[:4]),
    "endless": lambda frame: struct.pack(">i", (1 << 31) - 1) + frame,
    "negative": lambda frame: struct.pack(">i", -5) + frame,
    "about others": about("", lambda outcome: outcome._replace(topic="x" + outcome.topic)),
    "about few": lambda frame: whole(frame[:4] + bytes(8)),
    "many topics": lambda frame: whole(frame[:4] + b"\x7f\xff\xff\xff" + frame[8:]),
    "nonsense": lambda frame: whole(frame[:4] + b"\xff" * 200),
}
# What is told of one partition
OUTCOMES: dict[str, Callable[[Outcome], Outcome]] = {
    "behind": lambda outcome: outcome._replace(base_offset=outcome.base_offset - 3),
    "none": lambda outcome: outcome._replace(base_offset=-1),
    "far": lambda outcome: outcome._replace(base_offset=(1 << 63) - 1),
    "an error that there is not": lambda outcome: outcome._replace(error=9999),
    "refused": lambda outcome: outcome._replace(error=codes.INVALID_RECORD),
    "moved": lambda outcome: outcome._replace(error=6),
}


def _recoveries(running: Running) -> int:
    return sum(each.counters.recoveries for each in running.relay.partitions)


@pytest.fixture
def liar(eu: Cluster) -> Iterator[Liar]:
    made = Liar(eu)
    yield made
    made.close()


def test_lies_about_a_whole_answer_double_and_lose_nothing(
    us: Cluster, eu: Cluster, liar: Liar, topic: str, mirror: Any, writer: Any
) -> None:
    us.create_topic(topic, 3)
    flow = mirror(us, eu, topic, eu__bootstrap__servers=f"{HOST}:{liar.port}")
    with flow.start() as running, writer(us, topic, 3, rate=500):

        def acked() -> list[int]:
            return [each.acked for each in running.relay.partitions if each.place.topic == topic]

        running.until_running()
        for name, lie in FRAMES.items():
            before = _recoveries(running)
            liar.lie = lie
            running.until(lambda before=before: _recoveries(running) > before, name)
            liar.lie = None
            at = acked()
            running.until(lambda at=at: all(map(gt, acked(), at)), name)
    with flow.start():
        flow.until_equal(topic)


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_lie_about_one_partition_holds_up_only_that_one(
    name: str, us: Cluster, eu: Cluster, liar: Liar, topic: str, mirror: Any, writer: Any
) -> None:
    for each in ("good", "bad"):
        us.create_topic(f"{topic}-{each}")
    flow = mirror(us, eu, f"{topic}-.*", eu__bootstrap__servers=f"{HOST}:{liar.port}")
    with flow.start() as running, writer(us, f"{topic}-good", rate=500), writer(us, f"{topic}-bad", rate=500):
        running.until_running()
        good, bad = running[f"{topic}-good"], running[f"{topic}-bad"]
        liar.lie = about(f"{topic}-bad", OUTCOMES[name])
        running.until(lambda: bad.counters.recoveries > 1 or bool(bad.error), "the lie is noticed")
        told, at = liar.answers, good.acked
        time.sleep(1)
        assert good.acked > at
        assert good.counters.recoveries == 0
        assert liar.answers - told < 400  # the one that is lied about does not make the loop spin
        liar.lie = None
        assert TopicPartition(f"{topic}-bad", 0) == bad.place
    with flow.start():
        flow.until_equal(f"{topic}-good", f"{topic}-bad")
