"""ACL bindings and topic configs, as values."""

from dataclasses import dataclass
from typing import Final

# Kafka's codes for the source of a config value.
TOPIC_CONFIG: Final = 1
DYNAMIC_BROKER_CONFIG: Final = 2
DYNAMIC_DEFAULT_BROKER_CONFIG: Final = 3
STATIC_BROKER_CONFIG: Final = 4
DEFAULT_CONFIG: Final = 5


@dataclass(frozen=True, slots=True, order=True)
class AclBinding:
    """With Kafka's names: TOPIC, LITERAL, READ, ALLOW."""

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


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: int
    read_only: bool = False
    sensitive: bool = False

    @property
    def is_default(self) -> bool:
        """Kafka's own default. One set on brokers is not a default, so it is copied."""
        return self.source == DEFAULT_CONFIG


@dataclass(frozen=True, slots=True)
class ConfigChange:
    name: str
    value: str | None  # None: remove the topic's value, so that the broker's default applies
