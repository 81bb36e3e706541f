"""Real clusters for every test that asks, started once per session, and their last words in the report of a failure."""

import itertools
import logging
import re
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

with warnings.catch_warnings():  # kafka-python reads its schemas by a call that Python 3.11 and 3.12 frown upon
    warnings.filterwarnings("ignore", message="(read|open)_text is deprecated", category=DeprecationWarning)
    from twinlog.config import FlowConfig, load
    from twinlog.lab import listeners
    from twinlog.lab.broker import ClusterSpec
    from twinlog.lab.cluster import Cluster
    from twinlog.lab.jvm import KafkaJvm
    from twinlog.lab.lab import Lab, open_labs

# The independent client (librdkafka) with which tests prove that others can read what is written.
_QUIET = {"logger": logging.getLogger("librdkafka")}
_counter = itertools.count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two processes share the tests, file by file: the slow ones go first, or one process would end long before the other."""
    slow = ("spark", "fuzz", "broker", "java", "tools")
    items.sort(key=lambda item: next((at for at, mark in enumerate(slow) if item.get_closest_marker(mark)), len(slow)))


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The session's lab. A test that breaks clusters opens one of its own: `with Lab() as lab`."""
    session_lab = Lab()
    try:
        yield session_lab
    finally:
        session_lab.close(keep_logs=bool(request.session.testsfailed))


@pytest.fixture(scope="session")
def _us_and_eu(lab: Lab, request: pytest.FixtureRequest) -> dict[str, Cluster]:
    """Those of the two that any selected test asks for, started side by side."""
    asked = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    return {cluster.name: cluster for cluster in lab.clusters(*sorted({"us", "eu"} & asked))}


@pytest.fixture(scope="session")
def us(lab: Lab, _us_and_eu: dict[str, Cluster]) -> Cluster:
    """One broker, plaintext. Shared by all tests: use topics of your own (`topic`), and leave it running."""
    return _us_and_eu.get("us") or lab.cluster("us")


@pytest.fixture(scope="session")
def eu(lab: Lab, _us_and_eu: dict[str, Cluster]) -> Cluster:
    """Like `us`."""
    return _us_and_eu.get("eu") or lab.cluster("eu")


@pytest.fixture(scope="session")
def secure(lab: Lab) -> Cluster:
    """One broker with every kind of listener, an authorizer, and the users alice, bob and carol without any right."""
    wanted = ClusterSpec(name="secure", listeners=listeners.EVERY, users=("alice", "bob", "carol"), authorizer=True)
    return lab.clusters(wanted)[0]


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses; the topic itself is the test's to create."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_")).strip("-")
    return f"{words[:60]}-{next(_counter)}"


@pytest.fixture(scope="session")
def kafka_jvm() -> Iterator[KafkaJvm]:
    """Kafka's own Java classes, callable (marker `java`)."""
    with KafkaJvm() as kafka:
        yield kafka


@pytest.fixture
def produce() -> Callable[..., int]:
    def produce(properties: dict[str, str], topic: str, value: str, seconds: float = 30) -> int:
        """The record's offset; raises the reason for which the broker, or the way to it, refused it."""
        delivered: list[Any] = []
        refused: list[Any] = []
        producer = Producer({**properties, **_QUIET, "error_cb": refused.append, "acks": "all"})
        producer.produce(topic, value.encode(), on_delivery=lambda error, message: delivered.append(error or message))
        waited = 0.0
        while not delivered and not _final(refused) and waited < seconds:
            producer.poll(0.1)
            waited += 0.1
        producer.purge()
        producer.flush(5)
        if delivered and hasattr(delivered[0], "offset"):
            return int(delivered[0].offset())
        raise KafkaException((_final(refused) or refused or delivered)[0])

    return produce


@pytest.fixture
def consume() -> Callable[..., list[str]]:
    def consume(
        properties: dict[str, str], topic: str, count: int = 0, last: str = "", seconds: float = 30
    ) -> list[str]:
        """The first `count` records of partition 0, or all up to the one with the value `last`."""
        consumer = Consumer({**properties, **_QUIET, "group.id": "unused", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            found: list[str] = []
            waited = 0.0
            while (last not in found if last else len(found) < count) and waited < seconds:
                message = consumer.poll(0.2)
                waited += 0.2
                if message is None:
                    continue
                if message.error():
                    raise KafkaException(message.error())
                found.append((message.value() or b"").decode())
            return found
        finally:
            consumer.close()

    return consume


def _final(errors: list[Any]) -> list[Any]:
    """Those that no waiting cures: a broker that is down is not one of them, a wrong password is."""
    return [each for each in errors if each.name() in {"_AUTHENTICATION", "_SSL"} or "SSL alert" in each.str()]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for process in [process for open_lab in open_labs() for process in open_lab.processes]:
            state = "running" if process.alive else f"ended with exit code {process.exit_code}"
            report.sections.append((f"{process.name} ({state}), log {process.log}", process.tail(20)))
    return report


ReadFlow = Callable[..., FlowConfig]
Invoke = Callable[..., Any]

CLUSTERS = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


@pytest.fixture
def read_flow(tmp_path: Path) -> ReadFlow:
    """A->B of a dedicated-mode file with these lines."""

    def read(*lines: str) -> FlowConfig:
        file = tmp_path / "mm2.properties"
        file.write_text(CLUSTERS + "\n".join(lines))
        return next(flow for flow in load([file]).flows if str(flow) == "A->B")

    return read


@pytest.fixture(scope="session")
def invoke(kafka_jvm: KafkaJvm) -> Invoke:
    """A method or constructor that is not public, of a Java object or, where `on` is a text, of that class."""

    known: dict[tuple[str, str, int], Any] = {}  # to find a member takes a call to the JVM for each that there is

    def call(on: Any, name: str, *arguments: Any) -> Any:
        owner = on if isinstance(on, str) else on.getClass().getName()
        wanted = (owner, name, len(arguments))
        if wanted not in known:
            known[wanted] = member_of(*wanted)
        array = kafka_jvm._gateway.new_array(kafka_jvm.jvm.java.lang.Object, len(arguments))
        for at, argument in enumerate(arguments):
            array[at] = argument
        if name == "new":
            return known[wanted].newInstance(array)
        return known[wanted].invoke(None if isinstance(on, str) else on, array)

    def member_of(owner: str, name: str, count: int) -> Any:
        java = kafka_jvm._class(owner)
        members = java.getDeclaredConstructors() if name == "new" else java.getDeclaredMethods()
        named = [each for each in members if name in ("new", each.getName())]
        (member,) = [each for each in named if len(each.getParameterTypes()) == count]
        member.setAccessible(True)
        return member

    return call
