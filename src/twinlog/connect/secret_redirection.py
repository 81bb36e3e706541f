"""Detects changes to a connector that would send its masked secrets somewhere else.

With masking, a client sends asterisks for a secret that it does not change, and may not know. It could change the
address or disable TLS to have the password sent to its own broker. So masked secrets are accepted only while
everything that controls where and how they are sent stays the same.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from twinlog.text import MASK

# Addresses, protocol, mechanism, endpoints, trust: broader than needed, so that new settings of Kafka are covered.
_DESTINATION: Final = re.compile(
    r"(?:^|\.)(?:bootstrap\.servers$|security\.protocol$|client\.dns\.lookup$|sasl\.|ssl\.)"
)
_ONLY_SECRET: Final = re.compile(
    r"(?:password|passphrase|client\.secret|ssl\.keystore\.key|ssl\.keystore\.certificate\.chain)$"
)

Config = Mapping[str, str | None]


def redirected(stored: Config, changed: Config, masked: Collection[str]) -> str:
    """Why the `masked` secrets must be sent in full; empty if they may stay masked. Contains keys only."""
    different = sorted(key for key in {*stored, *changed} if stored.get(key) != changed.get(key))
    destination = [key for key in different if _DESTINATION.search(key) and not _ONLY_SECRET.search(key)]
    required = sorted(key for key in masked if any(_affects(each, key) for each in destination))
    if not required:
        return ""
    causes = ", ".join(each for each in destination if any(_affects(each, key) for key in required))
    return f"{', '.join(required)} = {MASK}: {causes} changed, which controls where secrets are sent; send the values"


def _affects(setting: str, secret: str) -> bool:
    """Settings without a side (`consumer.*`, `producer.override.*`) apply to clients of both clusters."""
    sides = {_side(setting), _side(secret)}
    return "" in sides or len(sides) == 1


def _side(key: str) -> str:
    first = key.partition(".")[0]
    return first if first in {"source", "target"} else ""
