"""The settings of Kafka's clients (consumer, producer, admin): names, types and defaults of Apache Kafka 4.3.

See layers.py for how MM2 passes them to a client.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

from twinlog.config.value_types import Check, Expected, Kind, at_least, between, no_empty, not_empty, one_of


@dataclass(frozen=True, slots=True)
class ClientKey:
    name: str
    clients: str  # C consumer, P producer, A admin client
    kind: Kind
    default: Any
    check: Check | None = None
    no_effect: str = ""  # why it is accepted but has no effect; a test verifies that the others have one
    note: str = ""  # difference from Kafka's client


def _gzip_level(value: int) -> str | None:
    return None if value == -1 or 1 <= value <= 9 else Expected("expected 1 to 9, or -1")


def _offset_reset(value: str) -> str | None:
    known = value in ("latest", "earliest", "none") or re.fullmatch(
        r"by_duration:P(?=.)(\d+D)?(T(?=.)[\dHMS.]+)?", value
    )
    return None if known else Expected("expected latest, earliest, none or by_duration:PnDTnHnMnS")


# Accepted without effect, and why.
_NO_EFFECT = {
    **dict.fromkeys(
        (
            "auto.commit.interval.ms", "enable.auto.commit", "group.id", "group.instance.id", "group.protocol",
            "group.remote.assignor", "heartbeat.interval.ms", "max.poll.interval.ms", "partition.assignment.strategy",
            "session.timeout.ms", "share.acknowledgement.mode", "share.acquire.mode",
        ),
        "topics are read without a consumer group",
    ),
    **dict.fromkeys(
        ("key.deserializer", "key.serializer", "value.deserializer", "value.serializer"), "records are copied as bytes"
    ),
    **dict.fromkeys(
        ("batch.size", "buffer.memory", "linger.ms"), "batches are forwarded at once, as they were written"
    ),
    **dict.fromkeys(("delivery.timeout.ms", "max.block.ms", "retries"), "a write is retried until it succeeds"),
    **dict.fromkeys(
        (
            "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "partitioner.class",
            "partitioner.ignore.keys",
        ),
        "records keep their partitions",
    ),
    **dict.fromkeys(
        ("transaction.timeout.ms", "transaction.two.phase.commit.enable", "transactional.id"),
        "no transactions are used",
    ),
    **dict.fromkeys(
        (
            "enable.metrics.push", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
            "metrics.sample.window.ms",
        ),
        "metrics are served at /metrics",
    ),
    **dict.fromkeys(
        (
            "metadata.max.age.ms", "metadata.max.idle.ms", "metadata.recovery.rebootstrap.trigger.ms",
            "metadata.recovery.strategy",
        ),
        "metadata is refreshed when a leader changes, from bootstrap.servers if no known broker is reachable",
    ),
    **dict.fromkeys(
        ("reconnect.backoff.max.ms", "reconnect.backoff.ms", "retry.backoff.max.ms", "retry.backoff.ms"),
        "the backoff is fixed: 0.05 s to 2 s",
    ),
    **dict.fromkeys(
        ("socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms"), "the timeout is fixed: 5 s"
    ),
    **dict.fromkeys(
        (
            "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.ticket.renew.jitter",
            "sasl.kerberos.ticket.renew.window.factor",
        ),
        "the Kerberos library renews tickets",
    ),
    **dict.fromkeys(
        (
            "sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience",
            "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
            "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.jwt.validator.class",
            "sasl.oauthbearer.scope.claim.name",
        ),
        "brokers validate tokens",
    ),
    "acks": "always all, so that acknowledged records are on every in-sync replica",
    "allow.auto.create.topics": "reading never creates a topic",
    "bootstrap.controllers": "requests are sent to brokers, never to controllers",
    "client.dns.lookup": "every address of a name is tried",
    "connections.max.idle.ms": "connections are not closed when idle, except by brokers",
    "default.api.timeout.ms": "each request has request.timeout.ms",
    "enable.idempotence": "always true, which prevents duplicates",
    "exclude.internal.topics": "topics are selected by the topic filter",
    "interceptor.classes": "Java classes cannot be run, and records are copied unchanged",
    "max.in.flight.requests.per.connection": "always 5, the maximum for which brokers keep the order",
    "max.poll.records": "there is no poll; fetch.max.bytes and max.partition.fetch.bytes limit a fetch",
    "max.request.size": "the target's limits apply (max.message.bytes), and larger batches are split",
    "security.providers": "OpenSSL is used for TLS",
    "ssl.engine.factory.class": "Java classes cannot be run; check that the other ssl.* settings suffice",
    "ssl.keymanager.algorithm": "OpenSSL selects keys",
    "ssl.provider": "OpenSSL is used for TLS",
    "ssl.secure.random.implementation": "OpenSSL generates random numbers",
    "ssl.trustmanager.algorithm": "OpenSSL verifies certificates",
}  # fmt: skip
# Values that match the fixed behaviour, so that no note is needed.
NO_NOTE_FOR = {
    "acks": ("all", "-1"),
    "enable.idempotence": ("true",),
    "enable.auto.commit": ("false",),
    "max.in.flight.requests.per.connection": ("5",),
}
_NOTES = {
    "client.id": "prefix of MM2's own client ids; the records' producer uses it unchanged, as in Connect",
    "request.timeout.ms": "default here: 30 s for fetching and producing records, 15 s for other requests",
    "receive.buffer.bytes": "values up to 1 MiB are ignored: the system's automatic sizing is better",
    "send.buffer.bytes": "values up to 1 MiB are ignored: the system's automatic sizing is better",
    "isolation.level": "default here for the records' consumer: read_committed",
    "compression.type": "if not set, records keep their compression",
    "fetch.max.bytes": "default here: 16 MiB",
}

_DECLARED = (
    ClientKey("acks", "P", Kind.STRING, "all", one_of("all", "-1", "0", "1")),
    ClientKey("allow.auto.create.topics", "C", Kind.BOOLEAN, True),
    ClientKey("auto.commit.interval.ms", "C", Kind.INT, 5000, at_least(0)),
    ClientKey("auto.offset.reset", "C", Kind.STRING, "latest", _offset_reset),
    ClientKey("batch.size", "P", Kind.INT, 16384, at_least(0)),
    ClientKey("bootstrap.controllers", "A", Kind.LIST, (), no_empty),
    ClientKey("bootstrap.servers", "CPA", Kind.LIST, None),
    ClientKey("buffer.memory", "P", Kind.LONG, 33554432, at_least(0)),
    ClientKey("check.crcs", "C", Kind.BOOLEAN, True),
    ClientKey(
        "client.dns.lookup",
        "CPA",
        Kind.STRING,
        "use_all_dns_ips",
        one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    ClientKey("client.id", "CPA", Kind.STRING, ""),
    ClientKey("client.rack", "C", Kind.STRING, ""),
    ClientKey("compression.gzip.level", "P", Kind.INT, -1, _gzip_level),
    ClientKey("compression.lz4.level", "P", Kind.INT, 9, between(1, 17)),
    ClientKey("compression.type", "P", Kind.STRING, "none", one_of("none", "gzip", "snappy", "lz4", "zstd")),
    ClientKey("compression.zstd.level", "P", Kind.INT, 3, between(-131072, 22)),
    ClientKey("config.providers", "CPA", Kind.LIST, (), no_empty),
    ClientKey("connections.max.idle.ms", "A", Kind.LONG, 300000),
    ClientKey("connections.max.idle.ms", "CP", Kind.LONG, 540000),
    ClientKey("default.api.timeout.ms", "CA", Kind.INT, 60000, at_least(0)),
    ClientKey("delivery.timeout.ms", "P", Kind.INT, 120000, at_least(0)),
    ClientKey("enable.auto.commit", "C", Kind.BOOLEAN, True),
    ClientKey("enable.idempotence", "P", Kind.BOOLEAN, True),
    ClientKey("enable.metrics.push", "A", Kind.BOOLEAN, False),
    ClientKey("enable.metrics.push", "CP", Kind.BOOLEAN, True),
    ClientKey("exclude.internal.topics", "C", Kind.BOOLEAN, True),
    ClientKey("fetch.max.bytes", "C", Kind.INT, 52428800, at_least(0)),
    ClientKey("fetch.max.wait.ms", "C", Kind.INT, 500, at_least(0)),
    ClientKey("fetch.min.bytes", "C", Kind.INT, 1, at_least(0)),
    ClientKey("group.id", "C", Kind.STRING, None),
    ClientKey("group.instance.id", "C", Kind.STRING, None, not_empty),
    ClientKey("group.protocol", "C", Kind.STRING, "classic", one_of("CONSUMER", "CLASSIC", ignore_case=True)),
    ClientKey("group.remote.assignor", "C", Kind.STRING, None),
    ClientKey("heartbeat.interval.ms", "C", Kind.INT, 3000),
    ClientKey("interceptor.classes", "CP", Kind.LIST, (), no_empty),
    ClientKey("isolation.level", "C", Kind.STRING, "read_uncommitted", one_of("read_committed", "read_uncommitted")),
    ClientKey("key.deserializer", "C", Kind.CLASS, None),
    ClientKey("key.serializer", "P", Kind.CLASS, None),
    ClientKey("linger.ms", "P", Kind.LONG, 5, at_least(0)),
    ClientKey("max.block.ms", "P", Kind.LONG, 60000, at_least(0)),
    ClientKey("max.in.flight.requests.per.connection", "P", Kind.INT, 5, at_least(1)),
    ClientKey("max.partition.fetch.bytes", "C", Kind.INT, 1048576, at_least(0)),
    ClientKey("max.poll.interval.ms", "C", Kind.INT, 300000, at_least(1)),
    ClientKey("max.poll.records", "C", Kind.INT, 500, at_least(1)),
    ClientKey("max.request.size", "P", Kind.INT, 1048576, at_least(0)),
    ClientKey("metadata.max.age.ms", "CPA", Kind.LONG, 300000, at_least(0)),
    ClientKey("metadata.max.idle.ms", "P", Kind.LONG, 300000, at_least(5000)),
    ClientKey("metadata.recovery.rebootstrap.trigger.ms", "CPA", Kind.LONG, 300000, at_least(0)),
    ClientKey(
        "metadata.recovery.strategy", "CPA", Kind.STRING, "rebootstrap", one_of("REBOOTSTRAP", "NONE", ignore_case=True)
    ),
    ClientKey("metric.reporters", "CPA", Kind.LIST, ("org.apache.kafka.common.metrics.JmxReporter",), no_empty),
    ClientKey("metrics.num.samples", "CPA", Kind.INT, 2, at_least(1)),
    ClientKey("metrics.recording.level", "CPA", Kind.STRING, "INFO", one_of("INFO", "DEBUG", "TRACE")),
    ClientKey("metrics.sample.window.ms", "CPA", Kind.LONG, 30000, at_least(0)),
    ClientKey(
        "partition.assignment.strategy",
        "C",
        Kind.LIST,
        (
            "org.apache.kafka.clients.consumer.RangeAssignor",
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        ),
        no_empty,
    ),
    ClientKey("partitioner.adaptive.partitioning.enable", "P", Kind.BOOLEAN, True),
    ClientKey("partitioner.availability.timeout.ms", "P", Kind.LONG, 0, at_least(0)),
    ClientKey("partitioner.class", "P", Kind.CLASS, None),
    ClientKey("partitioner.ignore.keys", "P", Kind.BOOLEAN, False),
    ClientKey("receive.buffer.bytes", "CA", Kind.INT, 65536, at_least(-1)),
    ClientKey("receive.buffer.bytes", "P", Kind.INT, 32768, at_least(-1)),
    ClientKey("reconnect.backoff.max.ms", "CPA", Kind.LONG, 1000, at_least(0)),
    ClientKey("reconnect.backoff.ms", "CPA", Kind.LONG, 50, at_least(0)),
    ClientKey("request.timeout.ms", "CPA", Kind.INT, 30000, at_least(0)),
    ClientKey("retries", "PA", Kind.INT, 2147483647, between(0, 2147483647)),
    ClientKey("retry.backoff.max.ms", "CPA", Kind.LONG, 1000, at_least(0)),
    ClientKey("retry.backoff.ms", "CPA", Kind.LONG, 100, at_least(0)),
    ClientKey("sasl.client.callback.handler.class", "CPA", Kind.CLASS, None),
    ClientKey("sasl.jaas.config", "CPA", Kind.PASSWORD, None),
    ClientKey("sasl.kerberos.kinit.cmd", "CPA", Kind.STRING, "/usr/bin/kinit"),
    ClientKey("sasl.kerberos.min.time.before.relogin", "CPA", Kind.LONG, 60000),
    ClientKey("sasl.kerberos.service.name", "CPA", Kind.STRING, None),
    ClientKey("sasl.kerberos.ticket.renew.jitter", "CPA", Kind.DOUBLE, 0.05),
    ClientKey("sasl.kerberos.ticket.renew.window.factor", "CPA", Kind.DOUBLE, 0.8),
    ClientKey("sasl.login.callback.handler.class", "CPA", Kind.CLASS, None),
    ClientKey("sasl.login.class", "CPA", Kind.CLASS, None),
    ClientKey("sasl.login.connect.timeout.ms", "CPA", Kind.INT, None),
    ClientKey("sasl.login.read.timeout.ms", "CPA", Kind.INT, None),
    ClientKey("sasl.login.refresh.buffer.seconds", "CPA", Kind.SHORT, 300, between(0, 3600)),
    ClientKey("sasl.login.refresh.min.period.seconds", "CPA", Kind.SHORT, 60, between(0, 900)),
    ClientKey("sasl.login.refresh.window.factor", "CPA", Kind.DOUBLE, 0.8, between(0.5, 1.0)),
    ClientKey("sasl.login.refresh.window.jitter", "CPA", Kind.DOUBLE, 0.05, between(0.0, 0.25)),
    ClientKey("sasl.login.retry.backoff.max.ms", "CPA", Kind.LONG, 10000),
    ClientKey("sasl.login.retry.backoff.ms", "CPA", Kind.LONG, 100),
    ClientKey("sasl.mechanism", "CPA", Kind.STRING, "GSSAPI"),
    ClientKey(
        "sasl.oauthbearer.assertion.algorithm", "CPA", Kind.STRING, "RS256", one_of("ES256", "RS256", ignore_case=True)
    ),
    ClientKey("sasl.oauthbearer.assertion.claim.aud", "CPA", Kind.STRING, None),
    ClientKey("sasl.oauthbearer.assertion.claim.exp.seconds", "CPA", Kind.INT, 300, between(0, 86400)),
    ClientKey("sasl.oauthbearer.assertion.claim.iss", "CPA", Kind.STRING, None),
    ClientKey("sasl.oauthbearer.assertion.claim.jti.include", "CPA", Kind.BOOLEAN, False),
    ClientKey("sasl.oauthbearer.assertion.claim.nbf.seconds", "CPA", Kind.INT, 60, between(0, 3600)),
    ClientKey("sasl.oauthbearer.assertion.claim.sub", "CPA", Kind.STRING, None),
    ClientKey("sasl.oauthbearer.assertion.file", "CPA", Kind.STRING, None),
    ClientKey("sasl.oauthbearer.assertion.private.key.file", "CPA", Kind.STRING, None),
    ClientKey("sasl.oauthbearer.assertion.private.key.passphrase", "CPA", Kind.PASSWORD, None),
    ClientKey("sasl.oauthbearer.assertion.template.file", "CPA", Kind.STRING, None),
    ClientKey("sasl.oauthbearer.client.credentials.client.id", "CPA", Kind.STRING, None),
    ClientKey("sasl.oauthbearer.client.credentials.client.secret", "CPA", Kind.PASSWORD, None),
    ClientKey("sasl.oauthbearer.clock.skew.seconds", "CPA", Kind.INT, 30),
    ClientKey("sasl.oauthbearer.expected.audience", "CPA", Kind.LIST, (), no_empty),
    ClientKey("sasl.oauthbearer.expected.issuer", "CPA", Kind.STRING, None),
    ClientKey("sasl.oauthbearer.header.urlencode", "CPA", Kind.BOOLEAN, False),
    ClientKey("sasl.oauthbearer.jwks.endpoint.refresh.ms", "CPA", Kind.LONG, 3600000),
    ClientKey("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "CPA", Kind.LONG, 10000),
    ClientKey("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "CPA", Kind.LONG, 100),
    ClientKey("sasl.oauthbearer.jwks.endpoint.url", "CPA", Kind.STRING, None),
    ClientKey(
        "sasl.oauthbearer.jwt.retriever.class",
        "CPA",
        Kind.CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    ),
    ClientKey(
        "sasl.oauthbearer.jwt.validator.class",
        "CPA",
        Kind.CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    ),
    ClientKey("sasl.oauthbearer.scope", "CPA", Kind.STRING, None),
    ClientKey("sasl.oauthbearer.scope.claim.name", "CPA", Kind.STRING, "scope"),
    ClientKey("sasl.oauthbearer.sub.claim.name", "CPA", Kind.STRING, "sub"),
    ClientKey("sasl.oauthbearer.token.endpoint.url", "CPA", Kind.STRING, None),
    ClientKey(
        "security.protocol",
        "CPA",
        Kind.STRING,
        "PLAINTEXT",
        one_of("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", ignore_case=True),
    ),
    ClientKey("security.providers", "CPA", Kind.STRING, None),
    ClientKey("send.buffer.bytes", "CPA", Kind.INT, 131072, at_least(-1)),
    ClientKey("session.timeout.ms", "C", Kind.INT, 45000),
    ClientKey("share.acknowledgement.mode", "C", Kind.STRING, "implicit", one_of("implicit", "explicit")),
    ClientKey("share.acquire.mode", "C", Kind.STRING, "BATCH_OPTIMIZED", one_of("batch_optimized", "record_limit")),
    ClientKey("socket.connection.setup.timeout.max.ms", "CPA", Kind.LONG, 30000),
    ClientKey("socket.connection.setup.timeout.ms", "CPA", Kind.LONG, 10000),
    ClientKey("ssl.cipher.suites", "CPA", Kind.LIST, (), no_empty),
    ClientKey("ssl.enabled.protocols", "CPA", Kind.LIST, ("TLSv1.2", "TLSv1.3"), no_empty),
    ClientKey("ssl.endpoint.identification.algorithm", "CPA", Kind.STRING, "https"),
    ClientKey("ssl.engine.factory.class", "CPA", Kind.CLASS, None),
    ClientKey("ssl.key.password", "CPA", Kind.PASSWORD, None),
    ClientKey("ssl.keymanager.algorithm", "CPA", Kind.STRING, "SunX509"),
    ClientKey("ssl.keystore.certificate.chain", "CPA", Kind.PASSWORD, None),
    ClientKey("ssl.keystore.key", "CPA", Kind.PASSWORD, None),
    ClientKey("ssl.keystore.location", "CPA", Kind.STRING, None),
    ClientKey("ssl.keystore.password", "CPA", Kind.PASSWORD, None),
    ClientKey("ssl.keystore.type", "CPA", Kind.STRING, "JKS"),
    ClientKey("ssl.protocol", "CPA", Kind.STRING, "TLSv1.3"),
    ClientKey("ssl.provider", "CPA", Kind.STRING, None),
    ClientKey("ssl.secure.random.implementation", "CPA", Kind.STRING, None),
    ClientKey("ssl.trustmanager.algorithm", "CPA", Kind.STRING, "PKIX"),
    ClientKey("ssl.truststore.certificates", "CPA", Kind.PASSWORD, None),
    ClientKey("ssl.truststore.location", "CPA", Kind.STRING, None),
    ClientKey("ssl.truststore.password", "CPA", Kind.PASSWORD, None),
    ClientKey("ssl.truststore.type", "CPA", Kind.STRING, "JKS"),
    ClientKey("transaction.timeout.ms", "P", Kind.INT, 60000),
    ClientKey("transaction.two.phase.commit.enable", "P", Kind.BOOLEAN, False),
    ClientKey("transactional.id", "P", Kind.STRING, None, not_empty),
    ClientKey("value.deserializer", "C", Kind.CLASS, None),
    ClientKey("value.serializer", "P", Kind.CLASS, None),
)

_KEYS = tuple(replace(key, no_effect=_NO_EFFECT.get(key.name, ""), note=_NOTES.get(key.name, "")) for key in _DECLARED)

# By client letter: a few defaults differ.
CLIENT_KEYS = {letter: {key.name: key for key in _KEYS if letter in key.clients} for letter in "CPA"}
CLIENT_LETTERS = {"consumer": "C", "producer": "P", "admin": "A"}

# The names that MM2 passes from `<alias>.<key>` to every client of that cluster.
CONNECTION_KEYS = tuple(
    name
    for name in CLIENT_KEYS["A"]
    if name in ("bootstrap.servers", "security.protocol") or name.startswith(("ssl.", "sasl."))
)
