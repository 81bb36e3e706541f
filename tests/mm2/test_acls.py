"""Which rights go to remote topics: section 3.5."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lab.kafka_classes import KafkaJvm
from twinlog.config import FlowConfig
from twinlog.kafka.resources import AclBinding
from twinlog.mm2.acls import for_remote_topics, missing
from twinlog.mm2.selection import selection_of

ReadFlow = Callable[..., FlowConfig]
Invoke = Callable[..., Any]
MIRROR = "org.apache.kafka.connect.mirror."
IDENTITY = f"replication.policy.class = {MIRROR}IdentityReplicationPolicy"

READ = AclBinding("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW")


def remote(flow: FlowConfig, *bindings: AclBinding) -> list[AclBinding]:
    selection = selection_of(flow)
    return for_remote_topics(bindings, selection.selects, selection.remote_name)


@pytest.mark.parametrize(
    "operation", ["READ", "DESCRIBE", "DELETE", "ALTER", "CREATE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"]
)
def test_rights_are_copied(read_flow: ReadFlow, operation: str) -> None:
    binding = replace(READ, operation=operation)
    assert remote(read_flow(), binding) == [replace(binding, name="A.orders")]


def test_write_is_never_granted_on_a_remote_topic(read_flow: ReadFlow) -> None:
    everything = replace(READ, operation="ALL")
    assert remote(read_flow(), replace(READ, operation="WRITE"), everything) == [replace(READ, name="A.orders")]


@pytest.mark.parametrize("operation", ["READ", "WRITE", "ALL"])
def test_what_is_denied_stays_denied(read_flow: ReadFlow, operation: str) -> None:
    binding = replace(READ, operation=operation, permission="DENY", host="10.0.0.1")
    assert remote(read_flow(), binding) == [replace(binding, name="A.orders")]


@pytest.mark.parametrize(
    "binding",
    [
        replace(READ, pattern_type="PREFIXED"),
        replace(READ, resource_type="GROUP"),
        replace(READ, name="clicks"),
        replace(READ, name="__consumer_offsets"),
        replace(READ, name="B.orders"),
    ],
    ids=str,
)
def test_what_is_not_copied(read_flow: ReadFlow, binding: AclBinding) -> None:
    assert remote(read_flow("topics = orders, __.*, B.*", "topics.exclude ="), binding) == []


def test_every_topic_is_an_ordinary_name(read_flow: ReadFlow) -> None:
    """As MM2 has it: not useful, but the same."""
    assert remote(read_flow(), replace(READ, name="*")) == [replace(READ, name="A.*")]
    assert remote(read_flow(IDENTITY), replace(READ, name="*")) == [replace(READ, name="*")]


def test_names_stay_under_the_identity_policy(read_flow: ReadFlow) -> None:
    assert remote(read_flow(IDENTITY), READ) == [READ]


def test_only_what_is_missing_is_created() -> None:
    other = replace(READ, principal="User:bob")
    assert missing([other, READ, READ], [replace(READ, host="10.0.0.1")]) == [READ, other]
    assert missing([other, READ], [READ, other]) == []


@pytest.mark.java
@pytest.mark.parametrize("policy", ["Default", "Identity"])
def test_mm2_copies_the_same(kafka_jvm: KafkaJvm, invoke: Invoke, read_flow: ReadFlow, policy: str) -> None:
    lines = [
        f"replication.policy.class = {MIRROR}{policy}ReplicationPolicy",
        "topics = orders, B.*",
        "topics.exclude =",
    ]
    flow = read_flow(*lines)
    assert flow.source is not None
    texts = {key: value.text for key, value in flow.source.values.items()}
    mirror, common = kafka_jvm.jvm.org.apache.kafka.connect.mirror, kafka_jvm.jvm.org.apache.kafka.common
    topic_filter, names = mirror.DefaultTopicFilter(), getattr(mirror, f"{policy}ReplicationPolicy")()
    topic_filter.configure(kafka_jvm.map(texts))
    names.configure(kafka_jvm.map(texts))
    theirs = invoke(
        f"{MIRROR}MirrorSourceConnector", "new", mirror.SourceAndTarget("A", "B"), names, topic_filter,
        mirror.DefaultConfigPropertyFilter(), True,  # noqa: FBT003  # heartbeats
    )  # fmt: skip

    def java(binding: AclBinding) -> Any:
        pattern = common.resource.ResourcePattern(
            common.resource.ResourceType.valueOf(binding.resource_type),
            binding.name,
            common.resource.PatternType.valueOf(binding.pattern_type),
        )
        entry = common.acl.AccessControlEntry(
            binding.principal,
            binding.host,
            common.acl.AclOperation.valueOf(binding.operation),
            common.acl.AclPermissionType.valueOf(binding.permission),
        )
        return common.acl.AclBinding(pattern, entry)

    copied = 0
    for name, kind, operation, permission in itertools.product(
        ["orders", "clicks", "B.orders", "*", "heartbeats"],
        ["LITERAL", "PREFIXED"],
        ["READ", "WRITE", "ALL", "DESCRIBE", "ALTER_CONFIGS"],
        ["ALLOW", "DENY"],
    ):
        binding = replace(READ, name=name, pattern_type=kind, operation=operation, permission=permission)
        ours = remote(flow, binding)
        # MM2 asks for topics first, then for the pattern type, then for the entry: `syncTopicAcls`.
        wanted = (
            invoke(theirs, "shouldReplicateTopic", name)
            and kind == "LITERAL"
            and invoke(theirs, "shouldReplicateAcl", java(binding))
        )
        assert bool(ours) == wanted, binding
        if ours:
            copied += 1
            assert java(ours[0]).equals(invoke(theirs, "targetAclBinding", java(binding))), binding
    assert copied > 10
