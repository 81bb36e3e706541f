"""Fixtures: real clusters, started once per session; the ends of their logs are added to failure reports."""

import itertools
import logging
import re
import signal
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

with warnings.catch_warnings():  # kafka-python reads its schemas by a call that is deprecated in Python 3.11 and 3.12
    warnings.filterwarnings("ignore", message="(read|open)_text is deprecated", category=DeprecationWarning)
    from lab import listeners
    from lab.broker import ClusterSpec
    from lab.cluster import Cluster
    from lab.kafka_classes import KafkaJvm
    from lab.lab import Lab, open_labs
    from tests.schedule import Scheduler, order
    from twinlog.config import FlowConfig, load

# librdkafka is an independent client: what it reads and writes does not depend on Twinlog's own code.
_QUIET = {"logger": logging.getLogger("librdkafka")}
_counter = itertools.count(1)
# On a busy machine an example takes any time.
hypothesis.settings.register_profile("any time", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("any time")
# Long, and rarely broken by a change elsewhere.
SLOW_FOLDERS = {"examples", "fuzz", "image", "spark_cluster", "versions"}


def pytest_configure() -> None:
    """A shell starts a background job with Ctrl-C ignored, which every process that a test starts would inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Marks what only `make test-slow` runs; then orders the files of which tests are selected."""
    for item in items:
        if item.path.parent.name in SLOW_FOLDERS:
            item.add_marker(pytest.mark.slow)
    yield
    order(items)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduler | None:
    return Scheduler(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The session's lab. A test that breaks clusters uses its own: `with Lab() as lab`."""
    session_lab = Lab()
    try:
        yield session_lab
    finally:
        session_lab.close(keep_logs=bool(request.session.testsfailed))


@pytest.fixture(scope="session")
def _us_and_eu(lab: Lab, request: pytest.FixtureRequest) -> dict[str, Cluster]:
    """Those of the two clusters that the selected tests use, started in parallel."""
    used = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    return {cluster.name: cluster for cluster in lab.clusters(*sorted({"us", "eu"} & used))}


@pytest.fixture(scope="session")
def us(lab: Lab, _us_and_eu: dict[str, Cluster]) -> Cluster:
    """One broker, plaintext. Shared by all tests: use unique topics (`topic`), and leave it running."""
    return _us_and_eu.get("us") or lab.cluster("us")


@pytest.fixture(scope="session")
def eu(lab: Lab, _us_and_eu: dict[str, Cluster]) -> Cluster:
    """Like `us`."""
    return _us_and_eu.get("eu") or lab.cluster("eu")


@pytest.fixture(scope="session")
def secure(lab: Lab) -> Cluster:
    """One broker with every listener but GSSAPI, an authorizer, and the users alice, bob and carol without ACLs."""
    spec = ClusterSpec(name="secure", listeners=listeners.EVERY, users=("alice", "bob", "carol"), authorizer=True)
    return lab.clusters(spec)[0]


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A unique topic name; the test creates the topic."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_")).strip("-")
    return f"{name[:60]}-{next(_counter)}"


@pytest.fixture(scope="session")
def kafka_jvm() -> Iterator[KafkaJvm]:
    """Kafka's own Java classes, callable (marker `java`)."""
    with KafkaJvm() as kafka:
        yield kafka


@pytest.fixture
def produce() -> Callable[..., int]:
    def produce(properties: dict[str, str], topic: str, value: str, seconds: float = 30) -> int:
        """The record's offset; raises the error of the connection or of the broker."""
        delivered: list[Any] = []
        errors: list[Any] = []
        producer = Producer({**properties, **_QUIET, "error_cb": errors.append, "acks": "all"})
        producer.produce(topic, value.encode(), on_delivery=lambda error, message: delivered.append(error or message))
        waited = 0.0
        while not delivered and not _fatal(errors) and waited < seconds:
            producer.poll(0.1)
            waited += 0.1
        producer.purge()
        producer.flush(5)
        if delivered and hasattr(delivered[0], "offset"):
            return int(delivered[0].offset())
        raise KafkaException((_fatal(errors) or errors or delivered)[0])

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


def _fatal(errors: list[Any]) -> list[Any]:
    """Errors that are not retriable, such as a wrong password."""
    return [each for each in errors if each.name() in {"_AUTHENTICATION", "_SSL"} or "SSL alert" in each.str()]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for process in [process for open_lab in open_labs() for process in open_lab.processes]:
            state = "running" if process.alive else f"exited with code {process.exit_code}"
            report.sections.append((f"{process.name} ({state}), log {process.log}", process.tail(20)))
    return report


ReadFlow = Callable[..., FlowConfig]
Invoke = Callable[..., Any]

CLUSTERS = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


@pytest.fixture
def read_flow(tmp_path: Path) -> ReadFlow:
    """The flow A->B of a dedicated-mode file with these lines."""

    def read(*lines: str) -> FlowConfig:
        file = tmp_path / "mm2.properties"
        file.write_text(CLUSTERS + "\n".join(lines))
        return next(flow for flow in load([file]).flows if str(flow) == "A->B")

    return read


@pytest.fixture(scope="session")
def invoke(kafka_jvm: KafkaJvm) -> Invoke:
    """Calls a non-public method of a Java object, or a static method or constructor of a class given by name."""

    members: dict[tuple[str, str, int], Any] = {}  # finding a member takes many calls to the JVM

    def call(on: Any, name: str, *arguments: Any) -> Any:
        owner = on if isinstance(on, str) else on.getClass().getName()
        key = (owner, name, len(arguments))
        if key not in members:
            members[key] = find_member(*key)
        array = kafka_jvm._gateway.new_array(kafka_jvm.jvm.java.lang.Object, len(arguments))
        for at, argument in enumerate(arguments):
            array[at] = argument
        if name == "new":
            return members[key].newInstance(array)
        return members[key].invoke(None if isinstance(on, str) else on, array)

    def find_member(owner: str, name: str, count: int) -> Any:
        java = kafka_jvm._class(owner)
        declared = java.getDeclaredConstructors() if name == "new" else java.getDeclaredMethods()
        named = [each for each in declared if name in ("new", each.getName())]
        (member,) = [each for each in named if len(each.getParameterTypes()) == count]
        member.setAccessible(True)
        return member

    return call
