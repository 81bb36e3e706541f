"""Third-party clients of Connect's REST API: the results of each, step by step."""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import click.testing
from kafka_connect import KafkaConnect  # type: ignore[import-untyped]
from kafkaconnect.cli import main as kafkaconnect_command  # type: ignore[import-untyped]
from kafkaconnect.connect import Connect  # type: ignore[import-untyped]
from requests.exceptions import HTTPError

from lab.kafka_classes import KafkaJvm
from lab.waiting import until

Steps = Iterator[tuple[str, Any]]
Settle = Callable[..., None]


def kafka_connect_py(url: str, name: str, config: dict[str, str], settle: Settle) -> Steps:
    client = KafkaConnect(url, logger=logging.getLogger("kafka_connect"))
    yield "info", client.get_cluster_info()
    yield "plugins", client.list_connector_plugins()
    yield "validated", _short(client.validate_connector_config("MirrorHeartbeatConnector", {**config, "name": name}))
    yield "created", client.create_connector({"name": name, "config": config})
    settle(name, "RUNNING", "RUNNING")
    yield "listed", client.list_connectors(pattern=name)
    yield "expanded", client.list_connectors(expand="status", pattern=name, state="RUNNING")
    yield "got", client.get_connector(name)
    yield "config", client.get_connector_config(name)
    yield "status", client.get_connector_status(name)
    yield "updated", client.update_connector(name, {**config, "tasks.max": "2"})
    settle(name, "RUNNING", "RUNNING")
    yield "restarted", _retry_conflicts(lambda: client.restart_connector(name))
    yield "restarted all", _retry_conflicts(lambda: client.restart_connector(name, include_tasks=True))
    settle(name, "RUNNING", "RUNNING")
    yield "tasks", [each["id"] for each in client.list_connector_tasks(name)]
    yield "task", client.get_connector_task_status(name, 0)
    yield "task restarted", _retry_conflicts(lambda: client.restart_connector_task(name, 0))
    settle(name, "RUNNING", "RUNNING")
    yield "topics", _filled(lambda: client.list_connector_topics(name))
    yield "topics reset", client.reset_connector_topics(name)
    yield "paused", client.pause_connector(name)
    settle(name, "PAUSED", "PAUSED")
    yield "resumed", client.resume_connector(name)
    settle(name, "RUNNING", "RUNNING")
    yield "stopped", client.stop_connector(name)
    settle(name, "STOPPED")
    yield "deleted", client.delete_connector(name)
    try:
        client.get_connector(name)
    except HTTPError as error:
        yield "gone", error.response.status_code if error.response is not None else None


def _retry_conflicts(call: Callable[[], Any]) -> Any:
    """A real worker on a busy machine may briefly return 409: "stale configuration", or a rebalance."""
    answers: list[Any] = []

    def answered() -> bool:
        try:
            answers.append(call())
        except HTTPError as error:
            if "409" not in str(error):
                raise
            return False
        return True

    until(answered, "the worker should accept the request", seconds=60)
    return answers[0]


def kafkaconnect(url: str, name: str, config: dict[str, str], settle: Settle) -> Steps:
    client = Connect(url)
    text = json.dumps({**config, "name": name})
    yield "plugins", json.loads(client.plugins())
    yield "validated", _short(json.loads(client.validate("MirrorHeartbeatConnector", text)))
    yield "created", json.loads(client.create_or_update(name, text))
    settle(name, "RUNNING", "RUNNING")
    yield "listed", name in json.loads(client.list())
    yield "info", json.loads(client.info(name))
    yield "status", json.loads(client.status(name))
    yield "config", json.loads(client.config(name))
    yield "topics", _filled(lambda: json.loads(client.topics(name)))
    yield "restarted", client.restart(name)
    settle(name, "RUNNING", "RUNNING")
    yield "paused", client.pause(name)
    settle(name, "PAUSED", "PAUSED")
    yield "resumed", client.resume(name)
    settle(name, "RUNNING", "RUNNING")
    yield "status by its command", _command(url, "status", name)
    yield "removed", client.remove(name)
    yield "gone", client.info(name).replace(url, "")
    invalid = client.validate_and_create(name, json.dumps({**config, "name": name, "tasks.max": "0"}))
    yield "invalid", _short(json.loads(invalid))


def _command(url: str, *arguments: str) -> Any:
    """The command of the same package."""
    ran = click.testing.CliRunner().invoke(kafkaconnect_command, ["--connect", url, *arguments])
    return json.loads(ran.output)


def java_client(url: str, name: str, config: dict[str, str], settle: Settle, jvm: KafkaJvm) -> Steps:
    """`org.sourcelab:kafka-connect-client`."""
    package = jvm.jvm.org.sourcelab.kafka.connect.apiclient
    client = package.KafkaConnectClient(package.Configuration(url))

    def seen(answer: Any) -> Any:
        return json.loads(jvm._json.writeValueAsString(answer))

    yield "version", seen(client.getConnectServerVersion())
    yield "plugins", seen(client.getConnectorPlugins())
    validated = package.request.dto.ConnectorPluginConfigDefinition(
        "MirrorHeartbeatConnector", jvm.map({**config, "name": name})
    )
    yield "validated", _short(seen(client.validateConnectorPluginConfig(validated)))
    yield "created", seen(client.addConnector(package.request.dto.NewConnectorDefinition(name, jvm.map(config))))
    settle(name, "RUNNING", "RUNNING")
    yield "listed", name in seen(client.getConnectors())
    yield "expanded", sorted(seen(client.getConnectorsWithAllExpandedMetadata()))
    yield "got", seen(client.getConnector(name))
    yield "config", seen(client.getConnectorConfig(name))
    yield "status", seen(client.getConnectorStatus(name))
    yield "topics", _filled(lambda: seen(client.getConnectorTopics(name)))
    yield "topics reset", client.resetConnectorTopics(name)
    yield "updated", seen(client.updateConnectorConfig(name, jvm.map({**config, "tasks.max": "2"})))
    settle(name, "RUNNING", "RUNNING")
    yield "restarted", client.restartConnector(name)
    settle(name, "RUNNING", "RUNNING")
    yield "tasks", [each["id"] for each in seen(client.getConnectorTasks(name))]
    yield "task", seen(client.getConnectorTaskStatus(name, 0))
    yield "task restarted", client.restartConnectorTask(name, 0)
    settle(name, "RUNNING", "RUNNING")
    yield "paused", client.pauseConnector(name)
    settle(name, "PAUSED", "PAUSED")
    yield "resumed", client.resumeConnector(name)
    settle(name, "RUNNING", "RUNNING")
    yield "stopped", client.stopConnector(name)
    settle(name, "STOPPED")
    yield "deleted", client.deleteConnector(name)
    try:
        client.getConnector(name)
    except Exception as error:  # noqa: BLE001  (py4j's, with Java's inside)
        yield "gone", "ResourceNotFoundException" in str(error)


def _filled(topics: Callable[[], Any]) -> Any:
    """Both workers report a topic with some delay."""
    until(lambda: "heartbeats" in str(topics()), "heartbeats should be written", seconds=30)
    return topics()


def _short(validated: dict[str, Any]) -> Any:
    """The result as the client parsed it; the keys are compared elsewhere."""
    count = next(value for key, value in validated.items() if key.replace("_", "").lower() == "errorcount")
    return {"name": validated["name"], "errors": count, "some": bool(validated["configs"])}
