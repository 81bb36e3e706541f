"""A configuration's text becomes its first flow; MM2's hidden methods become callable."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twinlog.config import FlowConfig, load
from twinlog.lab.jvm import KafkaJvm

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
