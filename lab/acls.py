"""Builds ACL entries from a user, operations and resources."""

from collections.abc import Mapping, Sequence

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from lab.errors import LabError

EVERY = ACLFilter(
    None,
    None,
    ACLOperation.ANY,
    ACLPermissionType.ANY,
    ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
)


def entries(user: str, operations: Sequence[str], resource: Mapping[str, str], *, allow: bool) -> list[ACL]:
    """One per operation and resource. `resource` maps a type (topic, group, cluster ...) to a name or prefix*."""
    try:
        return [
            ACL(
                principal=f"User:{user}",
                host="*",
                operation=ACLOperation[operation.upper()],
                permission_type=ACLPermissionType.ALLOW if allow else ACLPermissionType.DENY,
                resource_pattern=_pattern(ResourceType[kind.upper()], name),
            )
            for kind, name in resource.items()
            for operation in operations
        ]
    except KeyError as error:
        raise LabError(f"unknown ACL operation or resource type {error.args[0]!r}") from error


def _pattern(kind: ResourceType, name: str) -> ResourcePattern:
    if name.endswith("*") and name != "*":
        return ResourcePattern(kind, name[:-1], ACLResourcePatternType.PREFIXED)
    return ResourcePattern(kind, "kafka-cluster" if kind is ResourceType.CLUSTER else name)
