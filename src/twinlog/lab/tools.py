"""Kafka's own command-line tools, run to their end: the second opinion on everything that we claim about a cluster."""

from collections.abc import Mapping

from twinlog.config.properties import properties_text
from twinlog.errors import LabError
from twinlog.lab import jars, java_process
from twinlog.lab.process import temporary_folder

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
    """What the tool printed. With `properties` (a client's) it is pointed at their bootstrap servers.

    The tools are those of the newest line, which also speak to older brokers.
    """
    if name not in CLASSES:
        raise LabError(f"no tool {name!r}: choose one of {', '.join(CLASSES)}")
    with temporary_folder() as folder:
        given: list[str] = []
        if properties:
            file = folder / "client.properties"
            file.write_text(properties_text(properties))
            given = ["--bootstrap-server", properties["bootstrap.servers"], "--command-config", str(file)]
        return java_process.run(
            jars.NEWEST,
            CLASSES[name],
            [*given, *arguments],
            name=f"Kafka's tool {name}",
            urls=java_process.oauth_urls(properties or {}),
            stdin=stdin,
            seconds=seconds,
        )
