"""MM2's rules for copying a topic's ACLs to its remote topic. Pure.

ACLs are only ever added. WRITE is never granted on a remote topic: its records come from the source.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from twinlog.kafka.resources import AclBinding


def for_remote_topics(
    bindings: Iterable[AclBinding], selects: Callable[[str], bool], remote_name: Callable[[str], str]
) -> list[AclBinding]:
    """The ACLs that the target should have; `selects` and `remote_name` are those of the topic selection."""
    return [
        replace(
            binding, name=remote_name(binding.name), operation="READ" if _allows_all(binding) else binding.operation
        )
        for binding in bindings
        if binding.resource_type == "TOPIC"
        and binding.pattern_type == "LITERAL"
        and not (binding.permission == "ALLOW" and binding.operation == "WRITE")
        and selects(binding.name)
    ]


def missing(wanted: Iterable[AclBinding], existing: Iterable[AclBinding]) -> list[AclBinding]:
    """Without those that the target has; sorted, without duplicates."""
    return sorted(set(wanted) - set(existing))


def _allows_all(binding: AclBinding) -> bool:
    """ALLOW ALL would include WRITE."""
    return binding.permission == "ALLOW" and binding.operation == "ALL"
