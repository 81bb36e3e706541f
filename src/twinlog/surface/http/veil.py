"""Secrets in configurations: never in an answer, and yet a client may read a configuration, change it and put it back.

Connect answers with passwords as they are, and leaves it to config providers to hide them. Here they are answered as
asterisks; where a client sends these asterisks back, the password that is stored stays as it is.
"""

from collections.abc import Mapping
from typing import Any

from twinlog.config.values import MASK, is_secret, only_references


def veiled(config: Mapping[str, str]) -> dict[str, str]:
    return {key: MASK if _hidden(key, text) else text for key, text in config.items()}


def veiled_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """A connector, or a task, with its configuration inside."""
    return {**info, "config": veiled(info["config"])}


def unveiled(config: Mapping[str, str | None], stored: Mapping[str, str]) -> dict[str, str | None]:
    """What a client sent, with the passwords that it was not shown."""
    return {key: stored[key] if text == MASK and key in stored else text for key, text in config.items()}


def _hidden(key: str, text: str) -> bool:
    return is_secret(key, text) and not only_references(text)
