"""The settings that all three connectors of a flow have: MM2's keys and defaults."""

from dataclasses import dataclass
from typing import Annotated

from twinlog.config.setting import Key
from twinlog.config.setting_checks import MIRROR, converter, runnable_class
from twinlog.config.value_types import Kind, at_least, no_duplicates, no_empty, not_empty, one_of

_JMX = "org.apache.kafka.common.metrics.JmxReporter"

# Shared reasons of settings without effect
_RETRIES = "applies to transforms and converters only; reads and writes are retried until they succeed"
_TRANSACTIONS = "no transactions are used"
_VERSIONS = "there is one version of each class"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CommonSettings:
    """Settings of all three connectors of a flow."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"  # values of config providers may be secrets

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
            "enabled",
            Kind.BOOLEAN,
            "Whether the flow runs; in a dedicated-mode file the default is false. Heartbeats ignore it.",
        ),
    ] = True
    tasks_max: Annotated[int, Key("tasks.max", Kind.INT, "Maximum number of tasks.", at_least(1))] = 1
    tasks_max_enforce: Annotated[
        bool,
        Key(
            "tasks.max.enforce",
            Kind.BOOLEAN,
            "Whether more tasks than tasks.max are an error.",
            no_effect="there are never more tasks than tasks.max",
        ),
    ] = True
    admin_timeout_ms: Annotated[
        int,
        Key(
            "admin.timeout.ms",
            Kind.LONG,
            "Timeout of each administrative job (listing, creating, syncing).",
            no_effect="each request has the admin client's request.timeout.ms, and a failed job is retried",
        ),
    ] = 60_000
    replication_policy_class: Annotated[
        str,
        Key(
            "replication.policy.class", Kind.CLASS, "How remote topics are named.",
            runnable_class(
                MIRROR + "DefaultReplicationPolicy", MIRROR + "IdentityReplicationPolicy",
                python="the methods of twinlog.mm2.replication_policy.ReplicationPolicy",
            ),
        ),
    ] = MIRROR + "DefaultReplicationPolicy"  # fmt: skip
    replication_policy_separator: Annotated[
        str,
        Key("replication.policy.separator", Kind.STRING, "Separates alias and topic in the name of a remote topic."),
    ] = "."
    replication_policy_internal_topic_separator_enabled: Annotated[
        bool,
        Key(
            "replication.policy.internal.topic.separator.enabled", Kind.BOOLEAN,
            "Whether internal topics' names use the separator too; only read if a separator is set.",
        ),
    ] = True  # fmt: skip
    forwarding_admin_class: Annotated[
        str,
        Key(
            "forwarding.admin.class", Kind.CLASS, "Creates and alters topics instead of Twinlog's own client.",
            runnable_class(
                "org.apache.kafka.clients.admin.ForwardingAdmin",
                python="the methods of twinlog.mm2.plugins.TopicAdmin",
            ),
        ),
    ] = "org.apache.kafka.clients.admin.ForwardingAdmin"  # fmt: skip
    exactly_once_support: Annotated[
        str,
        Key(
            "exactly.once.support", Kind.STRING,
            "required: do not start unless exactly-once is possible (the source consumer must be read_committed).",
            one_of("requested", "required", ignore_case=True), declared=False,
        ),
    ] = "requested"  # fmt: skip
    transaction_boundary: Annotated[
        str,
        Key(
            "transaction.boundary", Kind.STRING, "Exactly-once: what ends a transaction.",
            one_of("poll", "interval", "connector", ignore_case=True), declared=False, no_effect=_TRANSACTIONS),
    ] = "poll"  # fmt: skip
    transaction_boundary_interval_ms: Annotated[
        int | None,
        Key(
            "transaction.boundary.interval.ms", Kind.LONG, "Exactly-once: the interval if that is the boundary.",
            at_least(0), declared=False, no_effect=_TRANSACTIONS),
    ] = None  # fmt: skip
    offsets_storage_topic: Annotated[
        str | None,
        Key(
            "offsets.storage.topic", Kind.STRING,
            "A separate topic for this connector's source offsets; the worker's is written too, as in Connect.",
            not_empty, declared=False,
        ),
    ] = None  # fmt: skip
    metric_reporters: Annotated[
        tuple[str, ...],
        Key(
            "metric.reporters",
            Kind.LIST,
            "MM2's metric reporters.",
            no_empty,
            no_effect="metrics are served at /metrics",
        ),
    ] = (_JMX,)
    config_providers: Annotated[
        tuple[str, ...],
        Key("config.providers", Kind.LIST, "Names of the providers that resolve ${name:path:key}.", no_empty),
    ] = ()
    config_action_reload: Annotated[
        str,
        Key(
            "config.action.reload", Kind.STRING, "What happens when a provided value expires.",
            one_of("none", "restart"), no_effect="changed secrets in files are used without a restart"),
    ] = "restart"  # fmt: skip
    connector_plugin_version: Annotated[
        str | None, Key("connector.plugin.version", Kind.STRING, "The connector's version.", no_effect=_VERSIONS)
    ] = None
    key_converter: Annotated[str | None, converter("key")] = None
    key_converter_plugin_version: Annotated[
        str | None, Key("key.converter.plugin.version", Kind.STRING, "That converter's version.", no_effect=_VERSIONS)
    ] = None
    value_converter: Annotated[str | None, converter("value")] = None
    value_converter_plugin_version: Annotated[
        str | None, Key("value.converter.plugin.version", Kind.STRING, "That converter's version.", no_effect=_VERSIONS)
    ] = None
    header_converter: Annotated[str | None, converter("header")] = None
    header_converter_plugin_version: Annotated[
        str | None,
        Key("header.converter.plugin.version", Kind.STRING, "That converter's version.", no_effect=_VERSIONS),
    ] = None
    transforms: Annotated[
        tuple[str, ...], Key("transforms", Kind.LIST, "Names of single message transforms, in order.", no_duplicates)
    ] = ()
    predicates: Annotated[
        tuple[str, ...],
        Key(
            "predicates",
            Kind.LIST,
            "Names of predicates of transforms.",
            no_duplicates,
            no_effect="they apply to transforms only, which are rejected",
        ),
    ] = ()
    errors_tolerance: Annotated[
        str,
        Key("errors.tolerance", Kind.STRING, "all: skip a record that cannot be written.", one_of("none", "all")),
    ] = "none"
    errors_retry_timeout: Annotated[
        int,
        Key(
            "errors.retry.timeout",
            Kind.LONG,
            "How long a failed operation is retried, in ms; -1 indefinitely.",
            no_effect=_RETRIES,
        ),
    ] = 0
    errors_retry_delay_max_ms: Annotated[
        int,
        Key("errors.retry.delay.max.ms", Kind.LONG, "Maximum pause between such retries.", no_effect=_RETRIES),
    ] = 60_000
    errors_log_enable: Annotated[
        bool,
        Key(
            "errors.log.enable",
            Kind.BOOLEAN,
            "Whether each failed operation is logged.",
            no_effect="failures are always reported as events",
        ),
    ] = False
    errors_log_include_messages: Annotated[
        bool,
        Key(
            "errors.log.include.messages",
            Kind.BOOLEAN,
            "Whether the record is logged too.",
            no_effect="records are never logged",
        ),
    ] = False
