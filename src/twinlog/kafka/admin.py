"""Admin requests: configs, ACLs, permissions, and consumer groups (groups.py). Belongs to one thread."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

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
from twinlog.kafka import error_codes
from twinlog.kafka.client import NO_ID
from twinlog.kafka.client_requests import creatable
from twinlog.kafka.groups import GroupListing, Groups, chunks
from twinlog.kafka.resources import AclBinding, ConfigChange, ConfigEntry
from twinlog.kafka.response_decoder import first

__all__ = ["AclBinding", "Admin", "ConfigChange", "ConfigEntry", "GroupListing"]

_TOPIC: Final = 2  # the resource type of configs and of ACLs
_SET: Final = 0
_DELETE: Final = 1
_ANY: Final = 1
_DESCRIBES_MISSING_GROUPS: Final = 5  # later versions of DescribeGroups only return GROUP_ID_NOT_FOUND for them
# Topics in one request: each has some 35 settings, and larger responses block for too long.
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
        for some in chunks(names, _BATCH):
            wanted = [kind(resource_type=_TOPIC, resource_name=name, configuration_keys=None) for name in some]
            request = DescribeConfigsRequest(resources=wanted, include_synonyms=False, include_documentation=False)
            for topic in self._client.send(request).results:
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
        """The rejected topics; the changes of a topic are applied all or none."""
        refused: dict[str, RefusedError] = {}
        kind = IncrementalAlterConfigsRequest.AlterConfigsResource
        for some in chunks((name for name, wanted in changes.items() if wanted), _BATCH):
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
            for topic in self._client.send(request).responses:
                if topic.error_code:
                    name = topic.resource_name
                    refused[name] = self._refused(f"configs of topic {name}", topic.error_code, topic.error_message)
        return refused

    def refuses_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> RefusedError | None:
        """The reason why the topic could not be created; None if it could. Validates only."""
        topic = creatable(name, partitions, replication_factor, configs)
        timeout_ms = int(self._client.timeout * 1000)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms, validate_only=True)
        result = first(self._client.send(request, self._client.controller()).topics)
        if not result.error_code:
            return None
        return self._refused(f"topic {name}", result.error_code, getattr(result, "error_message", None))

    # ACLs

    def acls(self) -> list[AclBinding] | None:
        """All ACLs on topics; None: the cluster has no authorizer."""
        request = DescribeAclsRequest(
            resource_type_filter=_TOPIC, resource_name_filter=None, pattern_type_filter=_ANY,
            principal_filter=None, host_filter=None, operation=_ANY, permission_type=_ANY,
        )  # fmt: skip
        response = self._client.send(request)
        if response.error_code == error_codes.SECURITY_DISABLED:
            return None
        if response.error_code:
            raise self._refused("ACLs", response.error_code, response.error_message)
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
            for resource in response.resources
            for acl in resource.acls
            # Types of a newer Kafka are skipped: they could not be written.
            if resource.pattern_type in _PATTERNS
            and acl.operation in _OPERATIONS
            and acl.permission_type in _PERMISSIONS
        ]

    def create_acls(self, bindings: Sequence[AclBinding]) -> list[tuple[AclBinding, str]]:
        """The rejected ACLs, each with the reason. An ACL that exists already is not rejected."""
        refused: list[tuple[AclBinding, str]] = []
        for some in chunks(bindings, _BATCH):
            response = self._client.send(CreateAclsRequest(creations=[_creation(binding) for binding in some]))
            for binding, result in zip(some, response.results, strict=True):
                if result.error_code:
                    refused.append((binding, result.error_message or error_codes.name(result.error_code)))
        return refused

    # Our own permissions

    def topic_rights(self, names: Iterable[str]) -> dict[str, frozenset[str] | None]:
        """The operations permitted on each topic (READ, DESCRIBE ...). None: unknown, or the topic does not exist."""
        found: dict[str, frozenset[str] | None] = {}
        for some in chunks(names, _BATCH):
            topics = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=NO_ID) for name in some]
            request = MetadataRequest(
                topics=topics,
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=True,
            )
            for topic in self._client.send(request).topics:
                if topic.error_code:
                    denied = topic.error_code == error_codes.TOPIC_AUTHORIZATION_FAILED
                    found[topic.name] = frozenset() if denied else None
                else:
                    found[topic.name] = _operations(topic.authorized_operations)
        return found

    def cluster_rights(self) -> frozenset[str] | None:
        """The operations permitted on the cluster (CREATE, ALTER ...). None: unknown."""
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=True, endpoint_type=1, include_fenced_brokers=False
        )
        try:
            response = self._client.send(request)
        except RefusedError as error:
            if error.code == error_codes.UNSUPPORTED_VERSION:  # before Kafka 2.8
                return None
            raise
        return None if response.error_code else _operations(response.authorized_operations)

    def group_rights(self, names: Iterable[str]) -> dict[str, frozenset[str] | None]:
        """The operations permitted on each group, existing or not. None: unknown.

        Asks every broker: finding a coordinator would make a new cluster create __consumer_offsets.
        """
        found: dict[str, frozenset[str] | None] = dict.fromkeys(names)
        for node in self._client.metadata([]).brokers if found else ():
            for some in chunks(found, _BATCH):
                request = DescribeGroupsRequest(groups=some, include_authorized_operations=True)
                for group in self._query(request, node, _DESCRIBES_MISSING_GROUPS).groups:
                    if group.error_code in error_codes.UNAUTHORIZED:
                        found[group.group_id] = frozenset()
                    elif not group.error_code:
                        found[group.group_id] = _operations(group.authorized_operations)
        return found

    def _refused(self, what: str, code: int, message: str | None) -> RefusedError:
        return RefusedError(f"cluster {self._client.alias}: {what}: {message or error_codes.name(code)}", code)


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
