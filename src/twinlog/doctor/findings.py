"""One finding: how bad it is, where, what was found, what to do. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Status = Literal["ok", "note", "warning", "error"]
STATUSES: Final[tuple[Status, ...]] = ("error", "warning", "note", "ok")  # the worst first
CONFIGURATION: Final = "configuration"


@dataclass(frozen=True, slots=True)
class Finding:
    status: Status
    check: str  # one word that scripts may rely on: connection, tls, login ...
    scope: str  # a cluster's alias, a flow, or the configuration
    where: str  # host:port, a topic, a line of a file
    found: str
    advice: str = ""


def halves(sentence: str) -> tuple[str, str]:
    """An error is one line: what is wrong, a colon, what to do. Where there is no second half, it is empty."""
    found, colon, advice = sentence.rpartition(": ")
    return (found, advice) if colon else (sentence, "")


def some(names: Sequence[str], most: int = 3) -> str:
    """`a, b, c and 12 more`."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def failed(findings: Iterable[Finding]) -> bool:
    return any(finding.status == "error" for finding in findings)
