"""The one table of settings: MM2's keys with MM2's defaults (Apache Kafka 4.3), as typed values.

Parser, defaults, checks, `twinlog config show` and docs/config.md all come from here.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from twinlog.config.javaregex import JavaRegexError, compile_list
from twinlog.config.kinds import Check, Kind, all_of, at_least, factor, no_doubles, no_gaps, not_empty, one_of
from twinlog.config.table import Key

MIRROR = "org.apache.kafka.connect.mirror."
BYTE_ARRAY = "org.apache.kafka.connect.converters.ByteArrayConverter"
JMX = "org.apache.kafka.common.metrics.JmxReporter"

# A policy that Strimzi shipped before Apache Kafka had one, with the same rules.
SAME_CLASS = {"io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy": MIRROR + "IdentityReplicationPolicy"}


def _regexes(patterns: Sequence[str]) -> str | None:
    if complaint := no_gaps(patterns):
        return complaint
    try:
        compile_list(patterns)
    except JavaRegexError as error:
        if len(patterns) == 1:
            return str(error)
        # MM2 joins the list into one pattern, but an operator looks for the element that is wrong.
        found = ((pattern, _regexes([pattern])) for pattern in patterns)
        return next((f"{pattern!r}: {complaint}" for pattern, complaint in found if complaint), str(error))
    return None


# A class by its package, its module and, behind a colon, its name.
_PYTHON_CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_FILTER = "accepts(name)"


def _runs(*known: str, python: str = "") -> Check:
    """A class that Twinlog has, or one in Python that has what `python` says (topology/plugins.py loads it).

    Others are Java, which cannot be run here: better refused than replaced in silence.
    """

    def check(name: str) -> str | None:
        if name in known or SAME_CLASS.get(name) in known or (python and _PYTHON_CLASS.fullmatch(name)):
            return None
        also = f", or write it in Python, as package.module:Class with {python}" if python else ""
        return f"this Java class cannot be run here: use {' or '.join(known)}{also}"

    return check


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CommonSettings:
    """What all three connectors of a flow understand."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"  # a value may come from a config provider, so none is shown

    name: Annotated[
        str, Key("name", Kind.STRING, "The connector's name; also the namespace of its stored offsets.", not_empty)
    ]
    connector_class: Annotated[str, Key("connector.class", Kind.STRING, "The connector's class.")]
    source_cluster_alias: Annotated[str, Key("source.cluster.alias", Kind.STRING, "Alias of the source cluster.")]
    target_cluster_alias: Annotated[str, Key("target.cluster.alias", Kind.STRING, "Alias of the target cluster.")] = (
        "target"
    )
    enabled: Annotated[
        bool,
        Key(
            "enabled", Kind.BOOLEAN, "Whether the flow runs; a dedicated-mode file must say true. Heartbeats ignore it."
        ),
    ] = True
    tasks_max: Annotated[int, Key("tasks.max", Kind.INT, "The most tasks that may share the work.", at_least(1))] = 1
    tasks_max_enforce: Annotated[
        bool, Key("tasks.max.enforce", Kind.BOOLEAN, "Whether more tasks than tasks.max are an error.")
    ] = True
    admin_timeout_ms: Annotated[
        int, Key("admin.timeout.ms", Kind.LONG, "Time limit of each administrative job (listing, creating, syncing).")
    ] = 60_000
    replication_policy_class: Annotated[
        str,
        Key(
            "replication.policy.class", Kind.CLASS, "How remote topics are named.",
            _runs(
                MIRROR + "DefaultReplicationPolicy", MIRROR + "IdentityReplicationPolicy",
                python="the methods of twinlog.topology.policy.ReplicationPolicy",
            ),
        ),
    ] = MIRROR + "DefaultReplicationPolicy"  # fmt: skip
    replication_policy_separator: Annotated[
        str,
        Key("replication.policy.separator", Kind.STRING, "Stands between alias and topic in a remote topic's name."),
    ] = "."
    replication_policy_internal_topic_separator_enabled: Annotated[
        bool,
        Key(
            "replication.policy.internal.topic.separator.enabled", Kind.BOOLEAN,
            "Whether the separator is used in internal topics' names too; only read where a separator is set.",
        ),
    ] = True  # fmt: skip
    forwarding_admin_class: Annotated[
        str,
        Key(
            "forwarding.admin.class", Kind.CLASS, "Makes the clients that create topics and ACLs.",
            _runs("org.apache.kafka.clients.admin.ForwardingAdmin"),
        ),
    ] = "org.apache.kafka.clients.admin.ForwardingAdmin"  # fmt: skip
    exactly_once_support: Annotated[
        str,
        Key(
            "exactly.once.support", Kind.STRING,
            "required: refuse to start unless exactly-once holds (the source consumer must be read_committed).",
            one_of("requested", "required", ignore_case=True), declared=False,
        ),
    ] = "requested"  # fmt: skip
    transaction_boundary: Annotated[
        str,
        Key(
            "transaction.boundary", Kind.STRING, "Exactly-once: what ends a transaction.",
            one_of("poll", "interval", "connector", ignore_case=True), declared=False,
        ),
    ] = "poll"  # fmt: skip
    transaction_boundary_interval_ms: Annotated[
        int | None,
        Key(
            "transaction.boundary.interval.ms", Kind.LONG, "Exactly-once: the interval, where that is the boundary.",
            at_least(0), declared=False,
        ),
    ] = None  # fmt: skip
    offsets_storage_topic: Annotated[
        str | None,
        Key(
            "offsets.storage.topic", Kind.STRING, "A topic of its own for this connector's source offsets.",
            not_empty, declared=False,
        ),
    ] = None  # fmt: skip
    metric_reporters: Annotated[
        tuple[str, ...],
        Key("metric.reporters", Kind.LIST, "MM2's reporters of metrics.", no_gaps),
    ] = (JMX,)
    config_providers: Annotated[
        tuple[str, ...],
        Key("config.providers", Kind.LIST, "Names of the providers that resolve ${name:path:key}.", no_gaps),
    ] = ()
    config_action_reload: Annotated[
        str,
        Key(
            "config.action.reload", Kind.STRING, "What happens when a provided value expires.",
            one_of("none", "restart"),
        ),
    ] = "restart"  # fmt: skip
    connector_plugin_version: Annotated[
        str | None, Key("connector.plugin.version", Kind.STRING, "The connector's version.")
    ] = None
    key_converter: Annotated[str | None, Key("key.converter", Kind.CLASS, "Converter of keys; bytes stay bytes.")] = (
        None
    )
    key_converter_plugin_version: Annotated[
        str | None, Key("key.converter.plugin.version", Kind.STRING, "That converter's version.")
    ] = None
    value_converter: Annotated[
        str | None, Key("value.converter", Kind.CLASS, "Converter of values; bytes stay bytes.")
    ] = None
    value_converter_plugin_version: Annotated[
        str | None, Key("value.converter.plugin.version", Kind.STRING, "That converter's version.")
    ] = None
    header_converter: Annotated[
        str | None, Key("header.converter", Kind.CLASS, "Converter of headers; bytes stay bytes.")
    ] = None
    header_converter_plugin_version: Annotated[
        str | None, Key("header.converter.plugin.version", Kind.STRING, "That converter's version.")
    ] = None
    transforms: Annotated[
        tuple[str, ...], Key("transforms", Kind.LIST, "Names of single-message transformations, in order.", no_doubles)
    ] = ()
    predicates: Annotated[
        tuple[str, ...], Key("predicates", Kind.LIST, "Names of predicates for transformations.", no_doubles)
    ] = ()
    errors_tolerance: Annotated[
        str,
        Key("errors.tolerance", Kind.STRING, "all: skip a record that cannot be written.", one_of("none", "all")),
    ] = "none"
    errors_retry_timeout: Annotated[
        int, Key("errors.retry.timeout", Kind.LONG, "How long a failed operation is tried again, in ms; -1 for ever.")
    ] = 0
    errors_retry_delay_max_ms: Annotated[
        int, Key("errors.retry.delay.max.ms", Kind.LONG, "The longest pause between two such tries.")
    ] = 60_000
    errors_log_enable: Annotated[
        bool, Key("errors.log.enable", Kind.BOOLEAN, "Whether each failed operation is logged.")
    ] = False
    errors_log_include_messages: Annotated[
        bool, Key("errors.log.include.messages", Kind.BOOLEAN, "Whether the record is logged with it.")
    ] = False


_TOPIC_FILTER = Key(
    "topic.filter.class",
    Kind.CLASS,
    "Decides which topics are replicated.",
    _runs(MIRROR + "DefaultTopicFilter", python=_FILTER),
)
_POLL = Key("consumer.poll.timeout.ms", Kind.LONG, "How long one poll of the source may wait.")
_LOCATION = Key(
    "offset-syncs.topic.location",
    Kind.STRING,
    "Which cluster holds the offset-syncs topic.",
    one_of("source", "target"),
)
_FORMATS = Key("metric.names.formats", Kind.LIST, "Names of MM2's metrics: the old ones, the new ones, or both.",
               all_of("legacy", "new"))  # fmt: skip
_TOPICS = Key(
    "topics", Kind.LIST, "Java regular expressions of the topics to replicate; a whole name must match.", _regexes
)
_TOPICS_EXCLUDE = Key("topics.exclude", Kind.LIST, "Topics never to replicate; wins over topics.", _regexes)
_EMIT_SYNCS = Key("emit.offset-syncs.enabled", Kind.BOOLEAN, "Whether offset syncs are written; checkpoints need them.")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SourceSettings(CommonSettings):
    """MirrorSourceConnector: the records, and topics, configs and ACLs."""

    topics: Annotated[tuple[str, ...], _TOPICS] = (".*",)
    topics_exclude: Annotated[tuple[str, ...], _TOPICS_EXCLUDE] = (r"mm2.*\.internal", r".*\.replica", "__.*")
    topic_filter_class: Annotated[str, _TOPIC_FILTER] = MIRROR + "DefaultTopicFilter"
    consumer_poll_timeout_ms: Annotated[int, _POLL] = 1000
    refresh_topics_enabled: Annotated[
        bool, Key("refresh.topics.enabled", Kind.BOOLEAN, "Whether new topics and partitions are looked for.")
    ] = True
    refresh_topics_interval_seconds: Annotated[int, Key("refresh.topics.interval.seconds", Kind.LONG, "How often.")] = (
        600
    )
    replication_factor: Annotated[
        int,
        Key("replication.factor", Kind.INT, "Replication factor of new remote topics; -1 for the broker's default."),
    ] = 2
    sync_topic_configs_enabled: Annotated[
        bool, Key("sync.topic.configs.enabled", Kind.BOOLEAN, "Whether topic configs are kept as on the source.")
    ] = True
    sync_topic_configs_interval_seconds: Annotated[
        int, Key("sync.topic.configs.interval.seconds", Kind.LONG, "How often.")
    ] = 600
    config_properties_exclude: Annotated[
        tuple[str, ...],
        Key("config.properties.exclude", Kind.LIST, "Topic configs never copied; Java regular expressions.", _regexes),
    ] = (
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.after.max.ms",
        "message.timestamp.type",
        "unclean.leader.election.enable",
        "min.insync.replicas",
    )
    config_property_filter_class: Annotated[
        str,
        Key(
            "config.property.filter.class", Kind.CLASS, "Decides which topic configs are copied.",
            _runs(MIRROR + "DefaultConfigPropertyFilter", python=_FILTER),
        ),
    ] = MIRROR + "DefaultConfigPropertyFilter"  # fmt: skip
    use_defaults_from: Annotated[
        str,
        Key(
            "use.defaults.from", Kind.STRING, "source: copy a topic config even where the source only has its default.",
            declared=False,
        ),
    ] = "target"  # fmt: skip
    sync_topic_acls_enabled: Annotated[
        bool, Key("sync.topic.acls.enabled", Kind.BOOLEAN, "Whether topic ACLs are copied.")
    ] = True
    sync_topic_acls_interval_seconds: Annotated[
        int, Key("sync.topic.acls.interval.seconds", Kind.LONG, "How often.")
    ] = 600
    emit_offset_syncs_enabled: Annotated[bool, _EMIT_SYNCS] = True
    offset_syncs_topic_location: Annotated[str, _LOCATION] = "source"
    offset_syncs_topic_replication_factor: Annotated[
        int, Key("offset-syncs.topic.replication.factor", Kind.SHORT, "Its replication factor.")
    ] = 3
    offset_lag_max: Annotated[
        int, Key("offset.lag.max", Kind.LONG, "How far translation may lag, in records, before a sync is due at once.")
    ] = 100
    heartbeats_replication_enabled: Annotated[
        bool,
        Key("heartbeats.replication.enabled", Kind.BOOLEAN, "Whether heartbeats are replicated whatever topics says."),
    ] = True
    metric_names_formats: Annotated[tuple[str, ...], _FORMATS] = ("legacy",)
    # Twinlog's own; MM2 ignores them.
    twinlog_lost_records: Annotated[
        str,
        Key(
            "twinlog.lost.records", Kind.STRING,
            "What a partition does when the source deleted records before they were copied: continue (it is told and "
            "counted) or stop.",
            one_of("continue", "stop"),
        ),
    ] = "continue"  # fmt: skip
    twinlog_recreated_topics: Annotated[
        str,
        Key(
            "twinlog.recreated.topics", Kind.STRING,
            "What happens when a source topic was deleted and made again: continue (the new one's records follow the "
            "old one's) or stop.",
            one_of("continue", "stop"),
        ),
    ] = "continue"  # fmt: skip
    twinlog_foreign_records: Annotated[
        str,
        Key(
            "twinlog.foreign.records", Kind.STRING,
            "Records in a remote topic that this flow did not write: tell (of them, and count them) or expect (several "
            "sources are merged into one topic, as IdentityReplicationPolicy allows: they belong there).",
            one_of("tell", "expect"),
        ),
    ] = "tell"  # fmt: skip
    twinlog_epoch_seconds: Annotated[
        int,
        Key(
            "twinlog.epoch.seconds", Kind.LONG,
            "How long tasks keep their partitions before the work is shared out anew.", at_least(1),
        ),
    ] = 600  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CheckpointSettings(CommonSettings):
    """MirrorCheckpointConnector: the positions of consumer groups."""

    groups: Annotated[
        tuple[str, ...],
        Key("groups", Kind.LIST, "Java regular expressions of the consumer groups to follow.", _regexes),
    ] = (".*",)
    groups_exclude: Annotated[
        tuple[str, ...], Key("groups.exclude", Kind.LIST, "Groups never to follow; wins over groups.", _regexes)
    ] = ("console-consumer-.*", "connect-.*", "__.*")
    group_filter_class: Annotated[
        str,
        Key(
            "group.filter.class", Kind.CLASS, "Decides which groups are followed.",
            _runs(MIRROR + "DefaultGroupFilter", python=_FILTER),
        ),
    ] = MIRROR + "DefaultGroupFilter"  # fmt: skip
    # Not declared by this connector, but its topic filter reads them.
    topics: Annotated[tuple[str, ...], _TOPICS] = (".*",)
    topics_exclude: Annotated[tuple[str, ...], _TOPICS_EXCLUDE] = (r"mm2.*\.internal", r".*\.replica", "__.*")
    topic_filter_class: Annotated[str, _TOPIC_FILTER] = MIRROR + "DefaultTopicFilter"
    consumer_poll_timeout_ms: Annotated[int, _POLL] = 1000
    refresh_groups_enabled: Annotated[
        bool, Key("refresh.groups.enabled", Kind.BOOLEAN, "Whether new groups are looked for.")
    ] = True
    refresh_groups_interval_seconds: Annotated[int, Key("refresh.groups.interval.seconds", Kind.LONG, "How often.")] = (
        600
    )
    emit_checkpoints_enabled: Annotated[
        bool, Key("emit.checkpoints.enabled", Kind.BOOLEAN, "Whether checkpoints are written.")
    ] = True
    emit_checkpoints_interval_seconds: Annotated[
        int, Key("emit.checkpoints.interval.seconds", Kind.LONG, "How often.")
    ] = 60
    checkpoints_topic_replication_factor: Annotated[
        int, Key("checkpoints.topic.replication.factor", Kind.SHORT, "Replication factor of the checkpoints topic.")
    ] = 3
    sync_group_offsets_enabled: Annotated[
        bool, Key("sync.group.offsets.enabled", Kind.BOOLEAN, "Whether idle groups' offsets are written on the target.")
    ] = False
    sync_group_offsets_interval_seconds: Annotated[
        int, Key("sync.group.offsets.interval.seconds", Kind.LONG, "How often.")
    ] = 60
    emit_offset_syncs_enabled: Annotated[bool, _EMIT_SYNCS] = True
    offset_syncs_topic_location: Annotated[str, _LOCATION] = "source"
    metric_names_formats: Annotated[tuple[str, ...], _FORMATS] = ("legacy",)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HeartbeatSettings(CommonSettings):
    """MirrorHeartbeatConnector: proof that the path is alive."""

    emit_heartbeats_enabled: Annotated[
        bool, Key("emit.heartbeats.enabled", Kind.BOOLEAN, "Whether heartbeats are written on the target.")
    ] = True
    emit_heartbeats_interval_seconds: Annotated[
        int, Key("emit.heartbeats.interval.seconds", Kind.LONG, "How often.")
    ] = 1
    heartbeats_topic_replication_factor: Annotated[
        int, Key("heartbeats.topic.replication.factor", Kind.SHORT, "Replication factor of the heartbeats topic.")
    ] = 3


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WorkerSettings:
    """What MM2 gives to the Connect worker of a flow, which lives on the target. Set as `<target>.<key>`."""

    def __repr__(self) -> str:
        return "WorkerSettings(...)"

    group_id: Annotated[str, Key("group.id", Kind.STRING, "The Connect group that runs the flow.", not_empty)]
    client_id: Annotated[str, Key("client.id", Kind.STRING, "Name of the worker's clients.")] = ""
    offset_storage_topic: Annotated[
        str, Key("offset.storage.topic", Kind.STRING, "Compacted topic of source offsets, on the target.", not_empty)
    ]
    offset_storage_partitions: Annotated[int, Key("offset.storage.partitions", Kind.INT, "Its partitions.", factor)] = (
        25
    )
    offset_storage_replication_factor: Annotated[
        int, Key("offset.storage.replication.factor", Kind.SHORT, "Its replication factor.", factor)
    ] = 3
    config_storage_topic: Annotated[
        str, Key("config.storage.topic", Kind.STRING, "Compacted topic of connector configurations.", not_empty)
    ]
    config_storage_replication_factor: Annotated[
        int, Key("config.storage.replication.factor", Kind.SHORT, "Its replication factor.", factor)
    ] = 3
    status_storage_topic: Annotated[
        str, Key("status.storage.topic", Kind.STRING, "Compacted topic of connector states.", not_empty)
    ]
    status_storage_partitions: Annotated[int, Key("status.storage.partitions", Kind.INT, "Its partitions.", factor)] = 5
    status_storage_replication_factor: Annotated[
        int, Key("status.storage.replication.factor", Kind.SHORT, "Its replication factor.", factor)
    ] = 3
    offset_flush_interval_ms: Annotated[
        int, Key("offset.flush.interval.ms", Kind.LONG, "How often source offsets are written.")
    ] = 60_000
    offset_flush_timeout_ms: Annotated[int, Key("offset.flush.timeout.ms", Kind.LONG, "How long that may take.")] = 5000
    exactly_once_source_support: Annotated[
        str,
        Key(
            "exactly.once.source.support", Kind.STRING, "enabled: records and their source offsets in one transaction.",
            one_of("disabled", "preparing", "enabled", ignore_case=True),
        ),
    ] = "disabled"  # fmt: skip
    key_converter: Annotated[str, Key("key.converter", Kind.CLASS, "Converter of keys; bytes stay bytes.")]
    value_converter: Annotated[str, Key("value.converter", Kind.CLASS, "Converter of values; bytes stay bytes.")]
    header_converter: Annotated[str, Key("header.converter", Kind.CLASS, "Converter of headers; bytes stay bytes.")] = (
        "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    )
    connector_client_config_override_policy: Annotated[
        str,
        Key(
            "connector.client.config.override.policy", Kind.STRING,
            "Which client settings a connector may override with producer.override.* and the like.",
        ),
    ] = "All"  # fmt: skip
    task_shutdown_graceful_timeout_ms: Annotated[
        int, Key("task.shutdown.graceful.timeout.ms", Kind.LONG, "How long a task may take to stop.")
    ] = 5000
    listeners: Annotated[tuple[str, ...], Key("listeners", Kind.LIST, "Addresses of the REST server.", no_gaps)] = (
        "http://:8083",
    )
    topic_creation_enable: Annotated[
        bool,
        Key("topic.creation.enable", Kind.BOOLEAN, "Whether a connector's topic.creation.* groups may create topics."),
    ] = True
    config_providers: Annotated[
        tuple[str, ...],
        Key("config.providers", Kind.LIST, "Names of the providers that resolve ${name:path:key}.", no_gaps),
    ] = ()


# Keys of a Connect worker that say how Connect itself runs: read, and without effect here, where no worker runs.
WORKER_WITHOUT_EFFECT = frozenset({
    "access.control.allow.methods", "access.control.allow.origin", "admin.listeners", "connect.protocol",
    "heartbeat.interval.ms", "inter.worker.key.generation.algorithm", "inter.worker.key.size",
    "inter.worker.key.ttl.ms", "inter.worker.signature.algorithm", "inter.worker.verification.algorithms",
    "key.converter.plugin.version", "value.converter.plugin.version", "header.converter.plugin.version",
    "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "metric.reporters",
    "plugin.discovery", "plugin.path", "rebalance.timeout.ms", "response.http.headers.config",
    "rest.advertised.host.name", "rest.advertised.listener", "rest.advertised.port", "rest.extension.classes",
    "rest.host.name", "rest.port", "scheduled.rebalance.max.delay.ms", "session.timeout.ms",
    "topic.tracking.allow.reset", "topic.tracking.enable", "worker.sync.timeout.ms", "worker.unsync.backoff.ms",
    "internal.key.converter", "internal.value.converter", "ssl.client.auth",
})  # fmt: skip

# Settings of the worker's own clients, which are Kafka's: see clients.py.
WORKER_CLIENT_KEYS = frozenset({
    "client.dns.lookup", "connections.max.idle.ms", "metadata.max.age.ms", "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
    "request.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
})  # fmt: skip

CONNECTORS: dict[str, type[CommonSettings]] = {
    "MirrorSourceConnector": SourceSettings,
    "MirrorCheckpointConnector": CheckpointSettings,
    "MirrorHeartbeatConnector": HeartbeatSettings,
}

# What MM2 2.4 to 3.9 called them (and what older guides call the includes).
ALIASES = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
    "topics.whitelist": "topics",
    "groups.whitelist": "groups",
}

# Keys of MM2 2.x and 3.x that newer lines dropped; Twinlog always does what their last default did.
DROPPED = {
    "use.incremental.alter.configs": "topic configs are always changed incrementally",
    "add.source.alias.to.metrics": "metrics always carry the source alias",
}
