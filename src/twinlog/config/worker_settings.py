"""The settings of the Connect worker: MM2's keys and defaults, and those of `twinlog serve`."""

from dataclasses import dataclass
from typing import Annotated

from twinlog.config.setting import Key
from twinlog.config.setting_checks import converter
from twinlog.config.value_types import Kind, at_least, factor, no_empty, not_empty, one_of

_POLICIES = ("All", "Allowlist", "None", "Principal")


def override_policy(text: str) -> str | None:
    """Kafka's override policy of this class name, simple name or alias, by Connect's rules for plugins."""
    name = text.strip().removeprefix("org.apache.kafka.connect.connector.policy.")
    name = name.removesuffix("ConnectorClientConfigOverridePolicy")
    return name if name in _POLICIES else None


def _is_policy(text: str) -> str | None:
    if override_policy(text) is not None:
        return None
    return f"not a policy of Kafka, others cannot be run; use {', '.join(_POLICIES)}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WorkerSettings:
    """Settings that MM2 passes to the Connect worker of a flow, on the target. Set as `<target>.<key>`."""

    def __repr__(self) -> str:
        return "WorkerSettings(...)"

    group_id: Annotated[str, Key("group.id", Kind.STRING, "The Connect group that runs the flow.", not_empty)]
    client_id: Annotated[
        str,
        Key(
            "client.id",
            Kind.STRING,
            "Client id of the worker's clients.",
            no_effect="it applies to Connect's own clients; set those of a flow, such as us.consumer.client.id",
        ),
    ] = ""
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
        int, Key("offset.flush.interval.ms", Kind.LONG, "How often source offsets are written.", at_least(1))
    ] = 60_000
    offset_flush_timeout_ms: Annotated[
        int,
        Key(
            "offset.flush.timeout.ms",
            Kind.LONG,
            "Timeout of such a write.",
            no_effect="offsets are written in the background and retried until the write succeeds",
        ),
    ] = 5000
    exactly_once_source_support: Annotated[
        str,
        Key(
            "exactly.once.source.support", Kind.STRING,
            "enabled: records and their source offsets are written in one transaction.",
            one_of("disabled", "preparing", "enabled", ignore_case=True),
        ),
    ] = "disabled"  # fmt: skip
    key_converter: Annotated[str, converter("key")]
    value_converter: Annotated[str, converter("value")]
    header_converter: Annotated[str, converter("header")] = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    connector_client_config_override_policy: Annotated[
        str,
        Key(
            "connector.client.config.override.policy", Kind.STRING,
            "Client settings that a connector may override with producer.override.* and similar: All, None, "
            "Principal (sasl.jaas.config, sasl.mechanism, security.protocol) or Allowlist. Other policies are "
            "rejected. In a dedicated-mode file all overrides are allowed, as in MM2.",
            _is_policy,
        ),
    ] = "All"  # fmt: skip
    connector_client_config_override_allowlist: Annotated[
        tuple[str, ...],
        Key(
            "connector.client.config.override.allowlist", Kind.LIST,
            "Client settings that connectors may override under the Allowlist policy.",
        ),
    ] = ()  # fmt: skip
    task_shutdown_graceful_timeout_ms: Annotated[
        int, Key("task.shutdown.graceful.timeout.ms", Kind.LONG, "Maximum time for a task to stop.")
    ] = 5000
    listeners: Annotated[tuple[str, ...], Key("listeners", Kind.LIST, "Addresses of the REST server.", no_empty)] = (
        "http://:8083",
    )
    twinlog_plugins: Annotated[
        tuple[str, ...],
        Key(
            "twinlog.plugins", Kind.LIST,
            "Python classes (package.module:Class) that connectors of twinlog serve may use as policy or filter; "
            "--plugin adds to them. Others are rejected: a connector must not choose which code runs.",
        ),
    ] = ()  # fmt: skip
    twinlog_connector_files: Annotated[
        tuple[str, ...],
        Key(
            "twinlog.connector.files", Kind.LIST,
            "Files and directories (with their content) that connectors of twinlog serve may name: keystores, "
            "truststores, keytabs, tokens. Others are rejected: a connector must not read every file that this account "
            "can read.",
        ),
    ] = ()  # fmt: skip
    oauth_allowed_files: Annotated[
        tuple[str, ...],
        Key(
            "org.apache.kafka.sasl.oauthbearer.allowed.files", Kind.LIST,
            "Files that connectors of twinlog serve may name in OAUTHBEARER settings (Kafka's system property); "
            "twinlog.connector.files adds to them.",
        ),
    ] = ()  # fmt: skip
    oauth_allowed_urls: Annotated[
        tuple[str, ...],
        Key(
            "org.apache.kafka.sasl.oauthbearer.allowed.urls", Kind.LIST,
            "Token endpoints, as exact URLs, that connectors of twinlog serve may name (Kafka's system property). "
            "Others are rejected: a connector must not send requests into the operator's network.",
        ),
    ] = ()  # fmt: skip
    twinlog_rest_mask_secrets: Annotated[
        str,
        Key(
            "twinlog.rest.mask.secrets", Kind.STRING,
            "Whether the REST API of twinlog serve masks inline passwords of connectors as ********. auto: only if "
            "other machines can reach the port without authentication. Clients that compare what they sent with what "
            "they read (Terraform, kccli) need false; Connect never masks.",
            one_of("auto", "true", "false", ignore_case=True),
        ),
    ] = "auto"  # fmt: skip
    topic_creation_enable: Annotated[
        bool,
        Key(
            "topic.creation.enable",
            Kind.BOOLEAN,
            "Whether topic.creation.* of a connector may create topics.",
            no_effect="remote topics are created by the source connector, as in MM2",
        ),
    ] = True
    config_providers: Annotated[
        tuple[str, ...],
        Key("config.providers", Kind.LIST, "Names of the providers that resolve ${name:path:key}.", no_empty),
    ] = ()


NO_WORKER = "it configures Connect's own runtime"
NO_INTERNAL_REST = "the processes of a flow do not communicate through REST"

# Read by `twinlog serve`, which is a Connect worker.
SERVE_READS = frozenset({
    "admin.listeners", "rest.advertised.host.name", "rest.advertised.port", "rest.extension.classes", "rest.host.name",
    "rest.port", "ssl.client.auth",
})  # fmt: skip

# Keys of Connect's own runtime: accepted without effect.
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

# Settings of the worker's own Kafka clients: see clients.py.
WORKER_CLIENT_KEYS = frozenset({
    "client.dns.lookup", "connections.max.idle.ms", "metadata.max.age.ms", "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
    "request.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
})  # fmt: skip
