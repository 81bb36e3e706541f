"""Kafka's Java classes, callable from Python: the reference for every rule that Twinlog shares with MM2.

A child JVM with Kafka's jars, called through the py4j that PySpark ships: how MM2 resolves a configuration, what
`java.util.regex` matches, what `java.util.Properties` reads.
"""

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from lab import jars
from lab.errors import LabError
from lab.ivy import pyspark_jar
from twinlog import java

_MIRROR = "org.apache.kafka.connect.mirror."


class KafkaJvm:
    """A child JVM, ended by `close` and when this process dies."""

    def __init__(self, line: str = jars.NEWEST) -> None:
        port, token = launch_gateway(
            jarpath=str(pyspark_jar("py4j")),
            classpath=jars.class_path(line),
            javaopts=["-Xmx256m", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.util=ALL-UNNAMED"],
            java_path=str(java.find().executable),
            die_on_exit=True,
            enable_auth=True,
            redirect_stdout=None,  # discarded
            redirect_stderr=None,
        )
        parameters = GatewayParameters(port=port, auth_token=token, auto_field=True, auto_convert=True)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        self.jvm: Any = self._gateway.jvm
        self._json = self.jvm.com.fasterxml.jackson.databind.ObjectMapper()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._gateway.shutdown()

    def properties(self, content: bytes) -> dict[str, str]:
        """What `java.util.Properties` reads from these bytes."""
        table = self.jvm.java.util.Properties()
        table.load(self.jvm.java.io.ByteArrayInputStream(content))
        return self.strings(table)

    def strings(self, table: Any) -> dict[str, str]:
        """A Java map as a dict of strings, transferred as JSON in one call: each call to the JVM takes milliseconds."""
        found = json.loads(self._json.writeValueAsString(table))
        return {key: value if isinstance(value, str) else str(value) for key, value in found.items()}

    def map(self, table: Mapping[str, str]) -> Any:
        return self._json.readValue(json.dumps(table), self._class("java.util.HashMap"))

    def matches(self, pattern: str, text: str) -> bool:
        return bool(self.jvm.java.util.regex.Pattern.matches(pattern, text))

    def config_def(self, config_class: str, member: str = "CONNECTOR_CONFIG_DEF") -> dict[str, Any]:
        """The declared keys of one of Kafka's configuration classes: name -> Java's `ConfigKey`.

        They are in a static field or, in the worker's class, returned by a static method that takes a `Crypto`.
        """
        owner = self._class(config_class)
        if member == "config":
            (method,) = [method for method in owner.getDeclaredMethods() if method.getName() == member]
            method.setAccessible(True)
            arguments = self._gateway.new_array(self.jvm.java.lang.Object, 1)
            arguments[0] = (
                self._class("org.apache.kafka.connect.runtime.distributed.Crypto").getField("SYSTEM").get(None)
            )
            keys = method.invoke(None, arguments).configKeys()
        else:
            field = owner.getDeclaredField(member)
            field.setAccessible(True)
            keys = field.get(None).configKeys()
        return {str(name): keys.get(name) for name in keys.keySet()}

    def mirror_maker(self, properties: dict[str, str]) -> "MirrorMakerView":
        return MirrorMakerView(self, properties)

    def _class(self, name: str) -> Any:
        return self.jvm.java.lang.Class.forName(name)


class MirrorMakerView:
    """How the real MM2 resolves a dedicated-mode file. Raises LabError with MM2's message if MM2 rejects it."""

    def __init__(self, kafka: KafkaJvm, properties: dict[str, str]) -> None:
        self._kafka = kafka
        # Otherwise MM2 scans all jars for plugins, which takes seconds. The key does not appear in the results.
        with_discovery = {"plugin.discovery": "service_load", **properties}
        try:
            self._config = kafka.jvm.org.apache.kafka.connect.mirror.MirrorMakerConfig(kafka.map(with_discovery))
        except Py4JJavaError as error:
            raise LabError(str(error.java_exception.getMessage())) from error

    def flows(self) -> list[tuple[str, str]]:
        return [(str(pair.source()), str(pair.target())) for pair in self._config.clusterPairs()]

    def worker(self, source: str, target: str) -> dict[str, str]:
        return self._kafka.strings(self._config.workerConfig(self._pair(source, target)))

    def connector(self, source: str, target: str, connector: str) -> dict[str, str]:
        connector_class = self._kafka._class(_MIRROR + connector)  # noqa: SLF001  (same module)
        return self._kafka.strings(self._config.connectorBaseConfig(self._pair(source, target), connector_class))

    def client(self, source: str, target: str, connector: str, client: str) -> dict[str, str]:
        """The properties of one of a connector's clients, e.g. client="sourceConsumerConfig"."""
        base = self._config.connectorBaseConfig(
            self._pair(source, target),
            self._kafka._class(_MIRROR + connector + "Connector"),  # noqa: SLF001
        )
        config = getattr(self._kafka.jvm.org.apache.kafka.connect.mirror, connector + "Config")(base)
        text = self._kafka._class("java.lang.String")  # noqa: SLF001
        types = self._kafka._gateway.new_array(self._kafka.jvm.java.lang.Class, 1)  # noqa: SLF001
        types[0] = text
        method = self._kafka._class(_MIRROR + "MirrorConnectorConfig").getDeclaredMethod(client, types)  # noqa: SLF001
        method.setAccessible(True)
        arguments = self._kafka._gateway.new_array(self._kafka.jvm.java.lang.Object, 1)  # noqa: SLF001
        arguments[0] = "role"
        return self._kafka.strings(method.invoke(config, arguments))

    def _pair(self, source: str, target: str) -> Any:
        return self._kafka.jvm.org.apache.kafka.connect.mirror.SourceAndTarget(source, target)
