"""The permissions that a flow needs on both clusters, those that are missing, and the commands that grant them. Pure.

MM2's list (section 3.8 of its specification) and two of Twinlog's own: it reads remote topics to find its position, and
writes a journal. Operations have Kafka's names: READ, DESCRIBE_CONFIGS.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from twinlog.mm2.selection import Side

Kind = Literal["topic", "group", "cluster"]


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    kind: Kind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else f"the {self.kind}"


CLUSTER = Resource("cluster")


@dataclass(frozen=True, slots=True, order=True)
class Need:
    side: Side
    role: str  # the client that needs it: each may have its own principal
    resource: Resource
    operation: str
    purpose: str
    refused: bool = False  # the operation was denied, so it is missing whatever rights the broker reports


RightsKey = tuple[Side, str, Resource]  # cluster, client, resource
Rights = Mapping[RightsKey, frozenset[str] | None]  # None: the broker does not report rights (no authorizer)


@dataclass(frozen=True, slots=True)
class Missing:
    """The same operations missing on several resources: one command grants them."""

    side: Side
    resources: tuple[Resource, ...]
    operations: tuple[str, ...]
    purposes: tuple[str, ...]

    def remedy(self, bootstrap: str, most: int | None = None) -> str:
        """`most`: the number of resources in the command."""
        words = ["kafka-acls", "--bootstrap-server", bootstrap, "--add", "--allow-principal", "User:..."]
        for operation in self.operations:
            words += ["--operation", spelled(operation)]
        for resource in self.resources[:most]:
            words += [f"--{resource.kind}", resource.name] if resource.name else [f"--{resource.kind}"]
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class RequiredAccess:
    """The resources that a flow uses, by purpose."""

    copied: tuple[str, ...] = ()  # topics of the source
    described: tuple[str, ...] = ()  # topics whose configs are read
    groups: tuple[str, ...] = ()  # groups whose offsets could not be read
    synced: tuple[str, ...] = ()  # groups whose offsets are committed on the target
    positions: tuple[str, ...] = ()  # topics of the target with these offsets
    reads_acls: bool = False
    written: tuple[str, ...] = ()  # topics of the target
    grown: tuple[str, ...] = ()
    configured: tuple[str, ...] = ()  # topics whose configs are synced
    grants_acls: bool = False
    internal_topics: tuple[tuple[Side, str], ...] = ()
    hidden: tuple[str, ...] = ()  # topics of the source named in `topics` that may not be described
    not_created: tuple[tuple[Side, str], ...] = ()  # creation was denied


def needs(access: RequiredAccess) -> list[Need]:
    found: list[Need] = []

    def need(
        side: Side, role: str, operation: str, purpose: str, resources: Iterable[Resource], *, refused: bool = False
    ) -> None:
        found.extend(Need(side, role, resource, operation, purpose, refused) for resource in resources)

    def topics(names: Iterable[str]) -> list[Resource]:
        return [Resource("topic", name) for name in names]

    need("source", "source.consumer", "READ", "to read records", topics(access.hidden), refused=True)
    need("source", "source.consumer", "READ", "to read records", topics(access.copied))
    need("source", "source.admin", "DESCRIBE_CONFIGS", "to copy configs", topics(access.described))
    groups = [Resource("group", name) for name in access.groups]
    need("source", "source.admin", "DESCRIBE", "to translate offsets", groups, refused=True)
    if access.reads_acls:
        need("source", "source.admin", "DESCRIBE", "to copy ACLs", [CLUSTER])
    for side, name in access.not_created:
        need(side, f"{side}.admin", "CREATE", "to create it", topics([name]), refused=True)
    need("target", "data.producer", "WRITE", "to write records", topics(access.written))
    need("target", "data.producer", "READ", "to find the position to resume from", topics(access.written))
    need("target", "target.admin", "ALTER", "to add partitions", topics(access.grown))
    for operation in ("ALTER_CONFIGS", "DESCRIBE_CONFIGS"):
        need("target", "target.admin", operation, "to copy configs", topics(access.configured))
    synced = [Resource("group", name) for name in access.synced]
    need("target", "target.admin", "READ", "to sync group offsets", [*synced, *topics(access.positions)])
    if access.grants_acls:
        need("target", "target.admin", "ALTER", "to copy ACLs", [CLUSTER])
    for side, name in access.internal_topics:
        writer, reader = ("source.producer", "source.consumer") if side == "source" else ("data.producer",) * 2
        need(side, writer, "WRITE", "to store positions", topics([name]))
        need(side, reader, "READ", "to read positions", topics([name]))
    return found


def missing(wanted: Iterable[Need], rights: Rights) -> list[Missing]:
    """Sorted, and grouped where the same operations are missing for the same purposes."""
    lacking: dict[tuple[Side, Resource], dict[str, str]] = {}
    for need in wanted:
        held = frozenset() if need.refused else rights.get((need.side, need.role, need.resource))
        if held is not None and need.operation not in held:
            lacking.setdefault((need.side, need.resource), {}).setdefault(need.operation, need.purpose)
    grouped: dict[tuple[Side, Kind, tuple[tuple[str, str], ...]], list[Resource]] = {}
    for (side, resource), operations in sorted(lacking.items()):
        grouped.setdefault((side, resource.kind, tuple(operations.items())), []).append(resource)
    return [
        Missing(
            side,
            tuple(resources),
            tuple(operation for operation, _ in lacks),
            tuple(dict.fromkeys(purpose for _, purpose in lacks)),
        )
        for (side, _, lacks), resources in grouped.items()
    ]


def spelled(operation: str) -> str:
    """As kafka-acls spells it: `DescribeConfigs`."""
    return "".join(word.capitalize() for word in operation.split("_"))
