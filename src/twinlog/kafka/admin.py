"""What an administrator asks of a cluster: configs, ACLs, rights, and what groups.py knows. One thread per object."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from kafka.protocol.admin import (
    CreateAclsRequest,
    CreateTopicsRequest,
    DescribeAclsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from twinlog.errors import RefusedError
from twinlog.kafka import codes
from twinlog.kafka.answers import first
from twinlog.kafka.client import NO_ID, creatable
from twinlog.kafka.groups import GroupListing, Groups
from twinlog.topology.acls import AclBinding
from twinlog.topology.configs import ConfigChange, ConfigEntry

__all__ = ["AclBinding", "Admin", "ConfigChange", "ConfigEntry", "GroupListing"]

T = TypeVar("T")

_TOPIC: Final = 2  # as a resource, of configs and of ACLs
_SET: Final = 0
_DELETE: Final = 1
_ANY: Final = 1
_TELLS_OF_THE_ABSENT: Final = 5  # later versions of DescribeGroups say only that there is no such group
# More topics in one request make an answer that is a burden to read at once: each has some 35 settings.
_BATCH: Final = 250

_RESOURCES: Final = {
    2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN", 7: "USER",
}  # fmt: skip
_PATTERNS: Final = {3: "LITERAL", 4: "PREFIXED"}
_OPERATIONS: Final = {
    2: "ALL", 3: "READ", 4: "WRITE", 5: "CREATE", 6: "DELETE", 7: "ALTER", 8: "DESCRIBE", 9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS", 12: "IDEMPOTENT_WRITE", 13: "CREATE_TOKENS", 14: "DESCRIBE_TOKENS",
    15: "TWO_PHASE_COMMIT",
}  # fmt: skip
_PERMISSIONS: Final = {2: "DENY", 3: "ALLOW"}


class Admin(Groups):
    # Configs

    def topic_configs(self, names: Iterable[str]) -> tuple[dict[str, dict[str, ConfigEntry]], dict[str, int]]:
        """(configs by topic and name, error codes by topic)."""
        found: dict[str, dict[str, ConfigEntry]] = {}
        failed: dict[str, int] = {}
        kind = DescribeConfigsRequest.DescribeConfigsResource
        for some in _parts(names):
            wanted = [kind(resource_type=_TOPIC, resource_name=name, configuration_keys=None) for name in some]
            request = DescribeConfigsRequest(resources=wanted, include_synonyms=False, include_documentation=False)
            for topic in self._client.ask(request).results:
                if topic.error_code:
                    failed[topic.resource_name] = topic.error_code
                else:
                    found[topic.resource_name] = {
                        each.name: ConfigEntry(
                            each.name, each.value, each.config_source, each.read_only, each.is_sensitive
                        )
                        for each in topic.configs
                    }
        return found, failed

    def alter_topic_configs(
        self, changes: Mapping[str, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> dict[str, RefusedError]:
        """What was refused, by topic: all changes of one, or none, are made."""
        refused: dict[str, RefusedError] = {}
        kind = IncrementalAlterConfigsRequest.AlterConfigsResource
        for some in _parts(name for name, wanted in changes.items() if wanted):
            topics = [
                kind(
                    resource_type=_TOPIC,
                    resource_name=name,
                    configs=[
                        kind.AlterableConfig(
                            name=change.name,
                            config_operation=_DELETE if change.value is None else _SET,
                            value=change.value,
                        )
                        for change in changes[name]
                    ],
                )
                for name in some
            ]
            request = IncrementalAlterConfigsRequest(resources=topics, validate_only=validate_only)
            for topic in self._client.ask(request).responses:
                if topic.error_code:
                    name = topic.resource_name
                    refused[name] = self._refusal(f"configs of topic {name}", topic.error_code, topic.error_message)
        return refused

    def refuses_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> RefusedError | None:
        """Why it would not be created so; None: it would."""
        topic = creatable(name, partitions, replication_factor, configs)
        timeout_ms = int(self._client.timeout * 1000)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms, validate_only=True)
        result = first(self._client.ask(request, self._client.controller()).topics)
        if not result.error_code:
            return None
        return self._refusal(f"topic {name}", result.error_code, getattr(result, "error_message", None))

    # ACLs

    def acls(self) -> list[AclBinding] | None:
        """Those on topics, whatever their names and patterns; None: the cluster has no authorizer."""
        request = DescribeAclsRequest(
            resource_type_filter=_TOPIC, resource_name_filter=None, pattern_type_filter=_ANY,
            principal_filter=None, host_filter=None, operation=_ANY, permission_type=_ANY,
        )  # fmt: skip
        answer = self._client.ask(request)
        if answer.error_code == codes.SECURITY_DISABLED:
            return None
        if answer.error_code:
            raise self._refusal("ACLs", answer.error_code, answer.error_message)
        return [
            AclBinding(
                _RESOURCES[resource.resource_type],
                resource.resource_name,
                _PATTERNS[resource.pattern_type],
                acl.principal,
                acl.host,
                _OPERATIONS[acl.operation],
                _PERMISSIONS[acl.permission_type],
            )
            for resource in answer.resources
            for acl in resource.acls
            # What a newer Kafka may bring is nothing that we could write.
            if resource.pattern_type in _PATTERNS
            and acl.operation in _OPERATIONS
            and acl.permission_type in _PERMISSIONS
        ]

    def create_acls(self, bindings: Sequence[AclBinding]) -> list[tuple[AclBinding, str]]:
        """Those that were refused, with the reason. One that exists already is none of them."""
        refused: list[tuple[AclBinding, str]] = []
        for some in _parts(bindings):
            answer = self._client.ask(CreateAclsRequest(creations=[_creation(binding) for binding in some]))
            for binding, result in zip(some, answer.results, strict=True):
                if result.error_code:
                    refused.append((binding, result.error_message or codes.name(result.error_code)))
        return refused

    # Rights of our own

    def topic_rights(self, names: Iterable[str]) -> dict[str, frozenset[str] | None]:
        """What we may do with each topic (READ, DESCRIBE ...). None: the broker does not say, or has no such topic."""
        found: dict[str, frozenset[str] | None] = {}
        for some in _parts(names):
            topics = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=NO_ID) for name in some]
            request = MetadataRequest(
                topics=topics,
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=True,
            )
            for topic in self._client.ask(request).topics:
                if topic.error_code:
                    denied = topic.error_code == codes.TOPIC_AUTHORIZATION_FAILED
                    found[topic.name] = frozenset() if denied else None
                else:
                    found[topic.name] = _operations(topic.authorized_operations)
        return found

    def cluster_rights(self) -> frozenset[str] | None:
        """What we may do with the cluster itself (CREATE, ALTER ...). None: the broker does not say."""
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=True, endpoint_type=1, include_fenced_brokers=False
        )
        try:
            answer = self._client.ask(request)
        except RefusedError as error:
            if error.code == codes.UNSUPPORTED_VERSION:  # before Kafka 2.8
                return None
            raise
        return None if answer.error_code else _operations(answer.authorized_operations)

    def group_rights(self, names: Iterable[str]) -> dict[str, frozenset[str] | None]:
        """What we may do with each group, whether it is there or not. None: the broker does not say.

        Every broker is asked: to ask for a coordinator would make a young cluster create __consumer_offsets.
        """
        found: dict[str, frozenset[str] | None] = dict.fromkeys(names)
        for node in self._client.metadata([]).brokers if found else ():
            for some in _parts(found):
                request = DescribeGroupsRequest(groups=some, include_authorized_operations=True)
                for group in self._ask(request, node, _TELLS_OF_THE_ABSENT).groups:
                    if group.error_code in codes.DENIED:
                        found[group.group_id] = frozenset()
                    elif not group.error_code:
                        found[group.group_id] = _operations(group.authorized_operations)
        return found

    def _refusal(self, what: str, code: int, message: str | None) -> RefusedError:
        return RefusedError(f"cluster {self._client.alias}: {what}: {message or codes.name(code)}", code)


def _parts(items: Iterable[T]) -> list[list[T]]:
    every = list(items)
    return [every[at : at + _BATCH] for at in range(0, len(every), _BATCH)]


def _creation(binding: AclBinding) -> Any:
    return CreateAclsRequest.AclCreation(
        resource_type=_code(_RESOURCES, binding.resource_type),
        resource_name=binding.name,
        resource_pattern_type=_code(_PATTERNS, binding.pattern_type),
        principal=binding.principal,
        host=binding.host,
        operation=_code(_OPERATIONS, binding.operation),
        permission_type=_code(_PERMISSIONS, binding.permission),
    )


def _code(table: Mapping[int, str], name: str) -> int:
    return next(code for code, known in table.items() if known == name)


def _operations(bits: Iterable[int] | None) -> frozenset[str] | None:
    return None if bits is None else frozenset(_OPERATIONS[bit] for bit in bits if bit in _OPERATIONS)
