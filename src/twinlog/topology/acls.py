"""Which rights on a topic go to its remote topic: MM2's rules. Pure.

Rights are only ever added. Nobody gets the right to write to a remote topic: its records are the source's.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, order=True)
class AclBinding:
    """In Kafka's own words: TOPIC, LITERAL, READ, ALLOW."""

    resource_type: str
    name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str

    def __str__(self) -> str:
        return (
            f"{self.permission} {self.principal} {self.operation} from {self.host} "
            f"on {self.resource_type} {self.name} ({self.pattern_type})"
        )


def for_remote_topics(
    bindings: Iterable[AclBinding], selects: Callable[[str], bool], remote_name: Callable[[str], str]
) -> list[AclBinding]:
    """What the target should have; `selects` and `remote_name` are the topic selection's."""
    return [
        replace(
            binding, name=remote_name(binding.name), operation="READ" if _everything(binding) else binding.operation
        )
        for binding in bindings
        if binding.resource_type == "TOPIC"
        and binding.pattern_type == "LITERAL"
        and not (binding.permission == "ALLOW" and binding.operation == "WRITE")
        and selects(binding.name)
    ]


def missing(wanted: Iterable[AclBinding], there: Iterable[AclBinding]) -> list[AclBinding]:
    """Without those that the target has; each once, in a stable order."""
    return sorted(set(wanted) - set(there))


def _everything(binding: AclBinding) -> bool:
    """ALLOW ALL would allow to write, too."""
    return binding.permission == "ALLOW" and binding.operation == "ALL"
