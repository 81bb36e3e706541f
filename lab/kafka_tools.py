"""Runs Kafka's own command-line tools, as an independent check of a cluster's state."""

from collections.abc import Mapping

from lab import jars, java_process
from lab.errors import LabError
from lab.process import temporary_folder
from twinlog.config.properties import properties_text

CLASSES = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "acls": "org.apache.kafka.tools.AclCommand",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "offsets": "org.apache.kafka.tools.GetOffsetShell",
    "leaders": "org.apache.kafka.tools.LeaderElectionCommand",
    "reassign": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "producer-perf": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf": "org.apache.kafka.tools.ConsumerPerformance",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
}


def run(
    name: str,
    *arguments: str,
    properties: Mapping[str, str] | None = None,
    stdin: str = "",
    seconds: float = 120,
) -> str:
    """The tool's output. With `properties` (a client's) it connects to their bootstrap servers.

    The tools are those of the newest Kafka release line; they also work with older brokers.
    """
    if name not in CLASSES:
        raise LabError(f"no Kafka tool {name!r}: use one of {', '.join(CLASSES)}")
    with temporary_folder() as folder:
        connection: list[str] = []
        if properties:
            file = folder / "client.properties"
            file.write_text(properties_text(properties))
            connection = ["--bootstrap-server", properties["bootstrap.servers"], "--command-config", str(file)]
        return java_process.run(
            jars.NEWEST,
            CLASSES[name],
            [*connection, *arguments],
            name=f"Kafka's tool {name}",
            urls=java_process.oauth_urls(properties or {}),
            stdin=stdin,
            seconds=seconds,
        )
