"""The settings of the source, checkpoint and heartbeat connectors: MM2's keys and defaults, and Twinlog's own keys."""

from dataclasses import dataclass
from typing import Annotated

from twinlog.config.common_settings import CommonSettings
from twinlog.config.setting import Key
from twinlog.config.setting_checks import FILTER, MIRROR, interval, runnable_class, valid_regexes
from twinlog.config.value_types import Kind, all_of, at_least, one_of


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TopicSettings(CommonSettings):
    """What MirrorSourceConnector and MirrorCheckpointConnector both read.

    MM2's checkpoint connector does not declare all of these; its topic filter reads them.
    """

    topics: Annotated[
        tuple[str, ...],
        Key(
            "topics", Kind.LIST, "Java regular expressions of the topics to replicate; they match full names.",
            valid_regexes,
        ),
    ] = (".*",)  # fmt: skip
    topics_exclude: Annotated[
        tuple[str, ...], Key("topics.exclude", Kind.LIST, "Topics never to replicate; overrides topics.", valid_regexes)
    ] = (r"mm2.*\.internal", r".*\.replica", "__.*")
    topic_filter_class: Annotated[
        str,
        Key(
            "topic.filter.class", Kind.CLASS, "Decides which topics are replicated.",
            runnable_class(MIRROR + "DefaultTopicFilter", python=FILTER),
        ),
    ] = MIRROR + "DefaultTopicFilter"  # fmt: skip
    consumer_poll_timeout_ms: Annotated[
        int,
        Key(
            "consumer.poll.timeout.ms", Kind.LONG, "Maximum wait of one poll of the source.",
            no_effect="there is no poll; a fetch waits up to fetch.max.wait.ms",
        ),
    ] = 1000  # fmt: skip
    emit_offset_syncs_enabled: Annotated[
        bool,
        Key("emit.offset-syncs.enabled", Kind.BOOLEAN, "Whether offset syncs are written; checkpoints require them."),
    ] = True
    offset_syncs_topic_location: Annotated[
        str,
        Key(
            "offset-syncs.topic.location", Kind.STRING, "Which cluster holds the offset-syncs topic.",
            one_of("source", "target"),
        ),
    ] = "source"  # fmt: skip
    metric_names_formats: Annotated[
        tuple[str, ...],
        Key(
            "metric.names.formats", Kind.LIST, "Names of MM2's metrics: legacy, new, or both.", all_of("legacy", "new")
        ),
    ] = ("legacy",)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SourceSettings(TopicSettings):
    """MirrorSourceConnector: records, topics, topic configs and ACLs."""

    refresh_topics_enabled: Annotated[
        bool, Key("refresh.topics.enabled", Kind.BOOLEAN, "Whether new topics and partitions are detected.")
    ] = True
    refresh_topics_interval_seconds: Annotated[int, interval("refresh.topics.interval.seconds")] = 600
    replication_factor: Annotated[
        int,
        Key("replication.factor", Kind.INT, "Replication factor of new remote topics; -1 for the broker's default."),
    ] = 2
    sync_topic_configs_enabled: Annotated[
        bool, Key("sync.topic.configs.enabled", Kind.BOOLEAN, "Whether topic configs are synced from the source.")
    ] = True
    sync_topic_configs_interval_seconds: Annotated[int, interval("sync.topic.configs.interval.seconds")] = 600
    config_properties_exclude: Annotated[
        tuple[str, ...],
        Key("config.properties.exclude", Kind.LIST, "Topic configs never to copy; Java regexes.", valid_regexes),
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
            runnable_class(MIRROR + "DefaultConfigPropertyFilter", python=FILTER),
        ),
    ] = MIRROR + "DefaultConfigPropertyFilter"  # fmt: skip
    use_defaults_from: Annotated[
        str,
        Key(
            "use.defaults.from", Kind.STRING, "source: copy a topic config even if the source only has its default.",
            declared=False,
        ),
    ] = "target"  # fmt: skip
    sync_topic_acls_enabled: Annotated[
        bool, Key("sync.topic.acls.enabled", Kind.BOOLEAN, "Whether topic ACLs are copied.")
    ] = True
    sync_topic_acls_interval_seconds: Annotated[int, interval("sync.topic.acls.interval.seconds")] = 600
    offset_syncs_topic_replication_factor: Annotated[
        int, Key("offset-syncs.topic.replication.factor", Kind.SHORT, "Its replication factor.")
    ] = 3
    offset_lag_max: Annotated[
        int,
        Key(
            "offset.lag.max",
            Kind.LONG,
            "How far offset translation may lag, in records, before an offset sync is written at once.",
            no_effect="an offset sync is written every second for an active partition, and translation is exact",
        ),
    ] = 100
    heartbeats_replication_enabled: Annotated[
        bool,
        Key("heartbeats.replication.enabled", Kind.BOOLEAN, "Whether heartbeats are replicated even if not in topics."),
    ] = True
    # Twinlog's own; MM2 ignores them.
    twinlog_lost_records: Annotated[
        str,
        Key(
            "twinlog.lost.records", Kind.STRING,
            "What a partition does if the source deleted records before they were copied: continue (reported and "
            "counted) or stop.",
            one_of("continue", "stop"),
        ),
    ] = "continue"  # fmt: skip
    twinlog_recreated_topics: Annotated[
        str,
        Key(
            "twinlog.recreated.topics", Kind.STRING,
            "What happens if a source topic was deleted and re-created: continue (the new topic's records follow the "
            "old one's) or stop.",
            one_of("continue", "stop"),
        ),
    ] = "continue"  # fmt: skip
    twinlog_deleted_remote_topics: Annotated[
        str,
        Key(
            "twinlog.deleted.remote.topics", Kind.STRING,
            "What is copied to a remote topic that was deleted and re-created: refill (all records of the source) or "
            "continue (only records not yet copied, as MM2).",
            one_of("refill", "continue"),
        ),
    ] = "refill"  # fmt: skip
    twinlog_foreign_records: Annotated[
        str,
        Key(
            "twinlog.foreign.records", Kind.STRING,
            "Records in a remote topic written by another producer: tell (report and count them) or expect (several "
            "sources are merged into one topic, as IdentityReplicationPolicy allows).",
            one_of("tell", "expect"),
        ),
    ] = "tell"  # fmt: skip
    twinlog_source_alias_topics: Annotated[
        str,
        Key(
            "twinlog.source.alias.topics", Kind.STRING,
            "Source topics whose names begin with the source's own alias, such as us.orders in us: copy (to "
            "us.us.orders, as MM2 up to 4.3) or exclude (as a replication cycle, as MM2 4.4: KAFKA-9914).",
            one_of("copy", "exclude"),
        ),
    ] = "copy"  # fmt: skip
    twinlog_fetch_connections: Annotated[
        int,
        Key(
            "twinlog.fetch.connections", Kind.INT,
            "How many connections a task may use per source broker over a long link (round trip of 5 ms or more). "
            "0: as many as increase the throughput, up to 32. Behind a proxy the system measures only the round trip "
            "to the proxy: set a number, then the time that a broker takes to respond is measured.", at_least(0),
        ),
    ] = 0  # fmt: skip
    twinlog_produce_connections: Annotated[
        int,
        Key(
            "twinlog.produce.connections", Kind.INT,
            "The same for the brokers of the target.", at_least(0),
        ),
    ] = 0  # fmt: skip
    twinlog_epoch_seconds: Annotated[
        int,
        Key(
            "twinlog.epoch.seconds", Kind.LONG,
            "How long tasks keep their partitions before these are reassigned.", at_least(1),
        ),
    ] = 600  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CheckpointSettings(TopicSettings):
    """MirrorCheckpointConnector: the offsets of consumer groups."""

    groups: Annotated[
        tuple[str, ...],
        Key("groups", Kind.LIST, "Java regular expressions of the consumer groups to sync.", valid_regexes),
    ] = (".*",)
    groups_exclude: Annotated[
        tuple[str, ...], Key("groups.exclude", Kind.LIST, "Groups never to sync; overrides groups.", valid_regexes)
    ] = ("console-consumer-.*", "connect-.*", "__.*")
    group_filter_class: Annotated[
        str,
        Key(
            "group.filter.class", Kind.CLASS, "Decides which groups are synced.",
            runnable_class(MIRROR + "DefaultGroupFilter", python=FILTER),
        ),
    ] = MIRROR + "DefaultGroupFilter"  # fmt: skip
    refresh_groups_enabled: Annotated[
        bool, Key("refresh.groups.enabled", Kind.BOOLEAN, "Whether new groups are detected.")
    ] = True
    refresh_groups_interval_seconds: Annotated[int, interval("refresh.groups.interval.seconds")] = 600
    emit_checkpoints_enabled: Annotated[
        bool, Key("emit.checkpoints.enabled", Kind.BOOLEAN, "Whether checkpoints are written.")
    ] = True
    emit_checkpoints_interval_seconds: Annotated[int, interval("emit.checkpoints.interval.seconds")] = 60
    checkpoints_topic_replication_factor: Annotated[
        int, Key("checkpoints.topic.replication.factor", Kind.SHORT, "Replication factor of the checkpoints topic.")
    ] = 3
    sync_group_offsets_enabled: Annotated[
        bool,
        Key("sync.group.offsets.enabled", Kind.BOOLEAN, "Whether offsets of idle groups are written on the target."),
    ] = False
    sync_group_offsets_interval_seconds: Annotated[int, interval("sync.group.offsets.interval.seconds")] = 60
    # Twinlog's own; MM2 ignores it.
    twinlog_sync_group_offsets_home: Annotated[
        bool,
        Key(
            "twinlog.sync.group.offsets.home", Kind.BOOLEAN,
            "Whether sync.group.offsets.enabled also writes offsets for topics of the target itself, for groups that "
            "consumed their remote topics on the source (failback). MM2 never does.",
        ),
    ] = False  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HeartbeatSettings(CommonSettings):
    """MirrorHeartbeatConnector: heartbeats, which show that the flow is alive."""

    emit_heartbeats_enabled: Annotated[
        bool, Key("emit.heartbeats.enabled", Kind.BOOLEAN, "Whether heartbeats are written on the target.")
    ] = True
    emit_heartbeats_interval_seconds: Annotated[int, interval("emit.heartbeats.interval.seconds")] = 1
    heartbeats_topic_replication_factor: Annotated[
        int, Key("heartbeats.topic.replication.factor", Kind.SHORT, "Replication factor of the heartbeats topic.")
    ] = 3


CONNECTORS: dict[str, type[CommonSettings]] = {
    "MirrorSourceConnector": SourceSettings,
    "MirrorCheckpointConnector": CheckpointSettings,
    "MirrorHeartbeatConnector": HeartbeatSettings,
}

# Names of MM2 2.4 to 3.9, and those of the includes in older guides.
ALIASES = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
    "topics.whitelist": "topics",
    "groups.whitelist": "groups",
}

# Keys of MM2 2.x and 3.x that were removed later; Twinlog behaves as with their last default.
DROPPED = {
    "use.incremental.alter.configs": "topic configs are always changed incrementally",
    "add.source.alias.to.metrics": "metrics always carry the source alias",
}
