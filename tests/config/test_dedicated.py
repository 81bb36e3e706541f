"""The dedicated-mode file: which flows exist, and which settings reach which component, by MM2's rules."""

import pickle
from collections.abc import Callable

import pytest

from twinlog.config import Config, FlowConfig

Read = Callable[..., Config]
Mistakes = Callable[..., list[str]]

APPENDIX_A = """\
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
security.protocol = SSL
A.security.protocol = SASL_SSL
A.consumer.isolation.level = read_committed
B.producer.compression.type = zstd
B.exactly.once.source.support = enabled
tasks.max = 8
offset.lag.max = 10
offset.flush.interval.ms = 5000
producer.acks = 1
use.defaults.from = source
A->B.enabled = true
A->B.topics = orders.*
A->B.consumer.isolation.level = read_uncommitted
A->B.producer.linger.ms = 5
"""
TWO = "clusters = us, eu\nus.bootstrap.servers = u:1\neu.bootstrap.servers = e:1\n"


def flow(config: Config, name: str) -> FlowConfig:
    return next(f for f in config.flows if str(f.flow) == name)


class TestTheSpecificationsWorkedExample:
    """Appendix A of the specification."""

    def test_flows(self, read: Read) -> None:
        config = read(APPENDIX_A)
        assert [(str(f.flow), f.replicates) for f in config.flows] == [("A->B", True), ("B->A", False)]

    def test_worker(self, read: Read) -> None:
        worker = flow(read(APPENDIX_A), "A->B").worker
        texts = {key: value.text for key, value in worker.values.items()}
        assert texts["bootstrap.servers"] == texts["producer.bootstrap.servers"] == "b:9092"
        assert texts["security.protocol"] == texts["admin.security.protocol"] == "SSL"
        assert texts["producer.compression.type"] == "zstd"
        assert texts["group.id"] == "A-mm2"
        assert not {"producer.acks", "offset.flush.interval.ms", "topics", "producer.linger.ms"} & set(texts)
        assert worker.settings.exactly_once_source_support == "enabled"
        assert worker.settings.offset_flush_interval_ms == 60_000
        assert worker.settings.offset_storage_topic == "mm2-offsets.A.internal"

    def test_connectors(self, read: Read) -> None:
        source = flow(read(APPENDIX_A), "A->B").source
        assert source is not None
        assert (source.settings.tasks_max, source.settings.offset_lag_max) == (8, 10)
        assert source.settings.topics == ("orders.*",)
        assert source.settings.use_defaults_from == "target"  # MM2 does not pass it on from the top level
        assert source.values["source.cluster.security.protocol"].text == "SASL_SSL"
        assert source.values["target.cluster.security.protocol"].text == "SSL"

    def test_the_clusters_client_settings_override_the_flows(self, read: Read) -> None:
        source = flow(read(APPENDIX_A), "A->B").source
        assert source is not None
        assert source.clients["source.consumer"]["isolation.level"] == "read_committed"

    def test_the_records_producer_is_the_workers(self, read: Read) -> None:
        source = flow(read(APPENDIX_A), "A->B").source
        assert source is not None
        data, syncs = source.clients["data.producer"], source.clients["source.producer"]
        assert (data["compression.type"], data["linger.ms"], data["acks"]) == ("zstd", 5, "all")
        assert data["max.in.flight.requests.per.connection"] == 1
        assert "linger.ms" not in data.values  # 5 is Kafka's default; the flow's own 5 goes to the offset syncs
        assert (syncs["linger.ms"], syncs["compression.type"]) == (5, "none")

    def test_settings_ignored_by_mm2_are_warnings(self, read: Read) -> None:
        message = [
            str(each) for each in read(APPENDIX_A).problems if each.level != "note" or "exactly.once" in each.text
        ]
        assert message == [
            "mm2.properties:5: warning: A: security.protocol = SASL_SSL without sasl.jaas.config; set it (JAAS files are not read)",
            "mm2.properties:8: note: B.exactly.once.source.support has no effect: records are not duplicated, "
            "without transactions",
            "mm2.properties:11: warning: offset.flush.interval.ms: ignored by MM2 at the top level; "
            "write <target>.offset.flush.interval.ms",
            "mm2.properties:12: warning: producer.acks: ignored by MM2 at the top level; write <target>.producer.acks",
            "mm2.properties:13: warning: use.defaults.from: ignored by MM2 at the top level; "
            "write <source>-><target>.use.defaults.from",
        ]


@pytest.mark.parametrize(
    ("lines", "flows"),
    [
        ("", {"us->eu": False, "eu->us": False}),  # every pair has heartbeats, so it is a flow
        ("us->eu.enabled = true", {"us->eu": True, "eu->us": False}),
        ("us->eu.enabled = TRUE", {"us->eu": True, "eu->us": False}),
        ("emit.heartbeats.enabled = false\nus->eu.enabled = true", {"us->eu": True}),
        ("us->eu.enabled = true\neu->us.emit.heartbeats.enabled = false", {"us->eu": True}),
        # MM2 looks for the flow without trimming, but the connector trims: heartbeats alone keep this one alive.
        ("us->eu.enabled = true \n", {"us->eu": True, "eu->us": False}),
        ("us->eu.enabled = true \nemit.heartbeats.enabled = false\neu->us.enabled = true", {"eu->us": True}),
        ("emit.heartbeats.enabled = false\neu->us.emit.heartbeats.enabled = true", {"eu->us": False}),
    ],
)
def test_which_flows_exist(read: Read, lines: str, flows: dict[str, bool]) -> None:
    assert {str(f.flow): f.replicates for f in read(TWO + lines).flows} == flows


def test_duplicates_in_a_list_count_once(read: Read) -> None:
    source = flow(read(TWO + "us->eu.enabled = true\nus->eu.topics = a, b, a\n"), "us->eu").source
    assert source is not None
    assert source.settings.topics == ("a", "b")


def test_a_file_that_replicates_nothing_is_a_warning(read: Read) -> None:
    (message,) = read(TWO).problems
    assert str(message).endswith("no flow is enabled, nothing is replicated; set us->eu.enabled = true")


@pytest.mark.parametrize(
    "line",
    [
        "eu.key.converter.schemas.enable = false",
        "eu.status.storage.retention.ms = 1000",
        "eu.request.timeout.ms = 1000",
        "eu.client.dns.lookup = use_all_dns_ips",
        "us->eu.producer.override.linger.ms = 3",
        "us->eu.transforms =",
        "us.bootstrap.servers = 2001:db8::1:9092",
        "us.bootstrap.servers = [2001:db8::1]:9092,PLAINTEXT://host:1",
    ],
)
def test_settings_of_mm2_give_no_warning(read: Read, line: str) -> None:
    message = [
        p.text
        for p in read(TWO + "us->eu.enabled = true\n" + line + "\n").problems
        if "is set twice" not in p.text and p.level != "note"
    ]
    assert message == []


def test_an_alias_may_be_a_prefix_of_another(read: Read) -> None:
    message = read(
        "clusters = a, a.b\na.bootstrap.servers = x:1\na.b.bootstrap.servers = y:1\na->a.b.enabled = true\n"
    ).problems
    assert [problem.text.split(",")[0] for problem in message] == [
        "cluster 'a': dotted prefix of 'a.b'",
        "cluster 'a.b': contains the separator '.'",
    ]


def test_a_cluster_without_a_flow_is_not_checked(read: Read) -> None:
    config = read(
        TWO.replace("us, eu", "us, eu, ap")
        + "emit.heartbeats.enabled = false\nus->eu.enabled = true\nap.security.protocol = BOGUS\n"
    )
    assert [str(f) for f in config.flows] == ["us->eu"]


def test_opposite_flows_that_keep_names_are_a_cycle(read: Read) -> None:
    policy = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    both = "us->eu.enabled = true\neu->us.enabled = true\n"
    (message,) = read(TWO + both + policy).problems
    assert "eu->us and us->eu both keep topic names" in str(message)
    assert read(TWO + both).problems == ()
    assert read(TWO + "us->eu.enabled = true\n" + policy).problems == ()


def test_top_level_storage_keys_override_the_clusters(read: Read) -> None:
    config = read(TWO + "eu.offset.storage.replication.factor = 1\noffset.storage.replication.factor = 2\n")
    assert flow(config, "us->eu").worker.settings.offset_storage_replication_factor == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("topics.blacklist", "topics_exclude"),
        ("topics.whitelist", "topics"),
        ("config.properties.blacklist", "config_properties_exclude"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "us->eu."])
def test_old_names_are_read_with_a_note(read: Read, prefix: str, old: str, new: str) -> None:
    config = read(TWO + f"us->eu.enabled = true\n{prefix}{old} = x.*\n")
    source = flow(config, "us->eu").source
    assert source is not None
    assert getattr(source.settings, new) == ("x.*",)
    assert any(
        problem.level == "note" and f"{prefix}{old} is an old name" in problem.text for problem in config.problems
    )


def test_the_new_name_overrides_the_old(read: Read) -> None:
    config = read(TWO + "groups.blacklist = old\nus->eu.groups.exclude = new\n")
    checkpoint = flow(config, "us->eu").checkpoint
    assert checkpoint is not None
    assert checkpoint.settings.groups_exclude == ("new",)
    assert any("groups.blacklist is ignored" in problem.text for problem in config.problems)


@pytest.mark.parametrize("key", ["emit.offset-syncs.enabled", "emit.checkpoints.enabled"])
def test_without_checkpoints_there_is_no_checkpoint_connector(read: Read, key: str) -> None:
    config = read(TWO + f"us->eu.enabled = true\nus->eu.{key} = false\nus->eu.sync.group.offsets.enabled = true\n")
    assert flow(config, "us->eu").checkpoint is None
    assert flow(config, "eu->us").checkpoint is not None
    (message,) = config.problems
    assert f"{key} = false: " in message.text


def test_a_config_can_be_pickled(read: Read) -> None:
    config = read(APPENDIX_A)
    assert pickle.loads(pickle.dumps(config)) == config


def test_a_config_cannot_be_changed(read: Read) -> None:
    config = read(APPENDIX_A)
    with pytest.raises(AttributeError):
        config.flows = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        config.clusters["A"] = None  # type: ignore[index]


def test_all_errors_are_reported_at_once(mistakes: Mistakes) -> None:
    assert mistakes(
        "clusters = us, eu\n"
        "us.bootstrap.servers = u\n"
        "tasks.max = 0\n"
        "us->eu.enabled = true\n"
        "us->eu.topics = orders.(\n"
        "us->eu.offset.lag.max = many\n"
        "us.security.protocol = TLS\n"
        "eu.consumer.isolation.level = commited\n"
        "replication.policy.class = com.acme.Policy\n"
    ) == [
        "mm2.properties: error: eu.bootstrap.servers is missing; set it to the brokers of cluster 'eu' as host:port,host:port",
        "mm2.properties:2: error: us.bootstrap.servers = 'u': 'u' is not host:port",
        "mm2.properties:3: error: tasks.max = '0': expected at least 1",
        "mm2.properties:5: error: us->eu.topics = 'orders.(': invalid Java regular expression: unclosed group at 7",
        "mm2.properties:6: error: us->eu.offset.lag.max = 'many': expected a whole number",
        "mm2.properties:7: error: us.security.protocol = 'TLS': expected one of SASL_SSL, PLAINTEXT, SSL, SASL_PLAINTEXT",
        "mm2.properties:8: error: eu.consumer.isolation.level = 'commited': expected one of read_committed, read_uncommitted",
        "mm2.properties:9: error: replication.policy.class = 'com.acme.Policy': Java classes cannot be run; use "
        "org.apache.kafka.connect.mirror.DefaultReplicationPolicy or "
        "org.apache.kafka.connect.mirror.IdentityReplicationPolicy, or a Python class (package.module:Class) "
        "with the methods of twinlog.mm2.replication_policy.ReplicationPolicy",
    ]


def test_a_setting_without_effect_is_noted(read: Read) -> None:
    texts = [p.text for p in read(TWO + "us->eu.enabled = true\neu.exactly.once.source.support = enabled\n").problems]
    assert texts == ["eu.exactly.once.source.support has no effect: records are not duplicated, without transactions"]


def test_transforms_of_a_flow_that_copies_nothing_do_no_harm(read: Read) -> None:
    read(TWO + "us->eu.enabled = true\neu->us.transforms = mask\neu->us.transforms.mask.type = X\n")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("us->eu.topics = a,,b", "empty element in the list; remove the extra comma"),
        (
            "us->eu.transforms = t, t\nus->eu.transforms.t.type = x",
            "'t' is in the list twice; remove one",
        ),
        ("us->eu.groups = \\\\p{IsLatin}x", "Latin"),
        ("us->eu.topics = a, b[, c", "'b[': invalid Java regular expression: unclosed character class at 1"),
        ("sync.topic.acls.enabled = yes", "expected true or false"),
        (
            "us->eu.exactly.once.support = required\neu.exactly.once.source.support = enabled",
            "isolation.level to be read_committed, not read_uncommitted",
        ),
        (
            "us->eu.exactly.once.support = required\nus.consumer.isolation.level = read_committed",
            "expected <target>.exactly.once.source.support = enabled for the worker",
        ),
        ("dedicated.mode.enable.internal.rest = maybe", "expected true or false"),
        ("us.consumer.auto.offset.reset = Latest", "expected latest, earliest, none or by_duration"),
        ("us.ssl.enabled.protocols = TLSv1.3,,TLSv1.2\nus.security.protocol = SSL", "empty element in the list"),
        ("us->eu.emit.offset-syncs.enabled = false\nus->eu.offset-syncs.topic.location = target", "contradicts"),
        ("eu.offset.storage.replication.factor = 0", "expected at least 1, or -1 for the broker's default"),
        ("a = \\u12", "four hexadecimal digits"),
        ("us->eu.transforms = mask", "transforms = 'mask': us->eu.transforms.mask.type is missing"),
        (
            "us->eu.transforms = mask\nus->eu.transforms.mask.type = X",
            "transforms = 'mask': transforms are not supported; remove it",
        ),
        pytest.param(
            "tasks.max = " + "1" * 5000, "expected a whole number from -2147483648 to 2147483647", id="5000 digits"
        ),
        ("tasks.max = 8 # eight", "expected a whole number (a # after a value is part of the value)"),
    ],
)
def test_an_error_names_line_value_and_remedy(mistakes: Mistakes, line: str, complaint: str) -> None:
    (found,) = mistakes(TWO + "us->eu.enabled = true\n" + line + "\n")
    assert complaint in found
    assert found.startswith("mm2.properties:")


def test_no_clusters_no_flow(mistakes: Mistakes) -> None:
    assert "clusters is missing (did you mean" not in mistakes("x = 1\n")[0]
    assert "clusters is missing (did you mean cluster?)" in mistakes("cluster = us, eu\n")[0]
    assert "no flow; name two clusters" in mistakes("clusters = us\nus.bootstrap.servers = u:1\n")[0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("topic = x", "topic: unknown key (did you mean topics?)"),
        ("us->eu.replication.facter = 3", "unknown key (did you mean replication.factor?)"),
        ("us.topics = x", "ignored by MM2 for a cluster; write topics, or <source>-><target>.topics"),
        ("us.max.poll.records = 5", "ignored by MM2 for a cluster; write us.consumer.max.poll.records"),
        (
            "us->eu.offset.flush.interval.ms = 5",
            "ignored by MM2 for a flow, it is a worker's key; write eu.offset.flush.interval.ms",
        ),
        ("task.max = 10", "unknown key (did you mean tasks.max?)"),
        ("replication.policy.seperator = _", "unknown key (did you mean replication.policy.separator?)"),
        ("eu.offset.storage.replication.facotr = 1", "did you mean offset.storage.replication.factor?"),
        ("us.replication.policy.separator = _", "ignored by MM2 for a cluster; write replication.policy.separator"),
        (
            "us->eu.consumer.override.max.poll.records = 3",
            "has no effect; only producer.override.* and admin.override.* do",
        ),
        ("us->eur.enabled = true", "unknown cluster 'eur' (did you mean eu?)"),
        ("us->us.enabled = true", "source and target of a flow are the same cluster"),
        ("eu.producer.isolation.level = x", "not a setting of a Kafka producer (it is a setting of the consumer)"),
        ("eu.consumer.isolation.levl = x", "not a setting of a Kafka consumer (did you mean isolation.level?)"),
        ("uss.bootstrap.servers = u:1", "unknown cluster 'uss' (did you mean us?)"),
        ("use.incremental.alter.configs = never", "no longer a setting"),
        ("transforms.mask.type = x", "ignored by MM2 at the top level; write <source>-><target>.transforms.mask.type"),
        ("us-> eu.topics = x", "the key ends at a blank, '=' or ':'; write us->eu without them"),
        ("us.sasl.mechanism = PLAIN", "us.sasl.mechanism has no effect: security.protocol is PLAINTEXT"),
        ("eu.security.protocol = SASL_PLAINTEXT", "eu: security.protocol = SASL_PLAINTEXT without sasl.jaas.config"),
        ("eu.ssl.truststore.location = /x", "eu.ssl.truststore.location has no effect: security.protocol is PLAINTEXT"),
        ("eu.security.protocol = SSL\neu.ssl.provider = X", "eu.ssl.provider has no effect: OpenSSL is used for TLS"),
        ("eu.security.protocol = SSL\neu.ssl.enabled.protocols = TLSv1.1,TLSv1.2", "TLSv1.1 is ignored"),
    ],
)
def test_a_key_without_effect_is_a_warning(read: Read, line: str, message: str) -> None:
    warnings = [problem.text for problem in read(TWO + "us->eu.enabled = true\n" + line + "\n").problems]
    assert len(warnings) == 1, warnings
    assert message in warnings[0]
