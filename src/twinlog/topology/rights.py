"""Which rights a flow needs on its two clusters, which of them are missing, and the command that grants them. Pure.

MM2's list (section 3.8 of its specification), and two that are Twinlog's own: it reads remote topics, to find out where
they end, and keeps a journal beside them. Operations are in Kafka's words: READ, DESCRIBE_CONFIGS.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from twinlog.topology.selection import Side

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
    role: str  # the client that needs it: each may log in as somebody else
    resource: Resource
    operation: str
    purpose: str
    refused: bool = False  # it was tried, and refused: whatever the broker says of rights, this one is missing


Holder = tuple[Side, str, Resource]  # the cluster, the client, on what
Rights = Mapping[Holder, frozenset[str] | None]  # None: the broker does not say, so it keeps nobody from anything


@dataclass(frozen=True, slots=True)
class Missing:
    """Rights that several resources lack alike: one command grants them."""

    side: Side
    resources: tuple[Resource, ...]
    operations: tuple[str, ...]
    purposes: tuple[str, ...]

    def remedy(self, bootstrap: str, most: int | None = None) -> str:
        """`most`: of so many resources at once."""
        words = ["kafka-acls", "--bootstrap-server", bootstrap, "--add", "--allow-principal", "User:..."]
        for operation in self.operations:
            words += ["--operation", spelled(operation)]
        for resource in self.resources[:most]:
            words += [f"--{resource.kind}", resource.name] if resource.name else [f"--{resource.kind}"]
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Duties:
    """What the flow has to do, and with what: a right is needed for each."""

    copied: tuple[str, ...] = ()  # topics of the source
    described: tuple[str, ...] = ()  # those whose configs are read
    groups: tuple[str, ...] = ()  # whose offsets could not be read
    synced: tuple[str, ...] = ()  # groups whose offsets are written on the target
    positions: tuple[str, ...] = ()  # topics of the target in which they are
    reads_acls: bool = False
    written: tuple[str, ...] = ()  # topics of the target
    grown: tuple[str, ...] = ()
    configured: tuple[str, ...] = ()  # those whose configs are kept as on the source
    grants_acls: bool = False
    own: tuple[tuple[Side, str], ...] = ()  # the topics beside the records
    hidden: tuple[str, ...] = ()  # topics of the source that we are asked to copy and may not even see
    not_created: tuple[tuple[Side, str], ...] = ()  # the cluster says that we may not


def needs(duties: Duties) -> list[Need]:
    found: list[Need] = []

    def need(
        side: Side, role: str, operation: str, purpose: str, resources: Iterable[Resource], *, refused: bool = False
    ) -> None:
        found.extend(Need(side, role, resource, operation, purpose, refused) for resource in resources)

    def topics(names: Iterable[str]) -> list[Resource]:
        return [Resource("topic", name) for name in names]

    need("source", "source.consumer", "READ", "to read records", topics(duties.hidden), refused=True)
    need("source", "source.consumer", "READ", "to read records", topics(duties.copied))
    need("source", "source.admin", "DESCRIBE_CONFIGS", "to copy configs", topics(duties.described))
    groups = [Resource("group", name) for name in duties.groups]
    need("source", "source.admin", "DESCRIBE", "to translate offsets", groups, refused=True)
    if duties.reads_acls:
        need("source", "source.admin", "DESCRIBE", "to copy ACLs", [CLUSTER])
    for side, name in duties.not_created:
        need(side, f"{side}.admin", "CREATE", "to create it", topics([name]), refused=True)
    need("target", "data.producer", "WRITE", "to write records", topics(duties.written))
    need("target", "data.producer", "READ", "to find out where to go on", topics(duties.written))
    need("target", "target.admin", "ALTER", "to add partitions", topics(duties.grown))
    for operation in ("ALTER_CONFIGS", "DESCRIBE_CONFIGS"):
        need("target", "target.admin", operation, "to copy configs", topics(duties.configured))
    synced = [Resource("group", name) for name in duties.synced]
    need("target", "target.admin", "READ", "to sync group offsets", [*synced, *topics(duties.positions)])
    if duties.grants_acls:
        need("target", "target.admin", "ALTER", "to copy ACLs", [CLUSTER])
    for side, name in duties.own:
        writer, reader = ("source.producer", "source.consumer") if side == "source" else ("data.producer",) * 2
        need(side, writer, "WRITE", "to note what was copied", topics([name]))
        need(side, reader, "READ", "to know what was copied", topics([name]))
    return found


def missing(wanted: Iterable[Need], rights: Rights) -> list[Missing]:
    """Sorted, and taken together where the same rights are missing for the same purposes."""
    lacking: dict[tuple[Side, Resource], dict[str, str]] = {}
    for need in wanted:
        held = frozenset() if need.refused else rights.get((need.side, need.role, need.resource))
        if held is not None and need.operation not in held:
            lacking.setdefault((need.side, need.resource), {}).setdefault(need.operation, need.purpose)
    alike: dict[tuple[Side, Kind, tuple[tuple[str, str], ...]], list[Resource]] = {}
    for (side, resource), operations in sorted(lacking.items()):
        alike.setdefault((side, resource.kind, tuple(operations.items())), []).append(resource)
    return [
        Missing(
            side,
            tuple(resources),
            tuple(operation for operation, _ in lacks),
            tuple(dict.fromkeys(purpose for _, purpose in lacks)),
        )
        for (side, _, lacks), resources in alike.items()
    ]


def spelled(operation: str) -> str:
    """As kafka-acls spells it: `DescribeConfigs`."""
    return "".join(word.capitalize() for word in operation.split("_"))
