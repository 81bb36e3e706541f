"""A finding of the doctor: severity, location, problem, advice. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from twinlog import text

Status = Literal["ok", "note", "warning", "error"]
STATUSES: Final[tuple[Status, ...]] = ("error", "warning", "note", "ok")  # the worst first
CONFIGURATION: Final = "configuration"


@dataclass(frozen=True, slots=True)
class Finding:
    status: Status
    check: str  # one stable word for scripts: connection, tls, login ...
    scope: str  # a cluster's alias, a flow, or the configuration
    where: str  # host:port, a topic, a line of a file
    found: str
    advice: str = ""


class Command(str):
    """An advice that is a shell command: it is printed in one piece."""

    __slots__ = ()


def some(names: Sequence[str], most: int = 3) -> str:
    """`a, b, c and 12 more`."""
    return text.some(names, most)


def failed(findings: Iterable[Finding]) -> bool:
    return any(finding.status == "error" for finding in findings)
