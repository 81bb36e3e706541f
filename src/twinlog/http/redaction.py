"""Masks secrets in responses as asterisks, and restores the masked values that clients send back.

Connect returns inline passwords unmasked and leaves hiding them to config providers; some clients compare what they
sent with what they read. So masking is a setting (`twinlog.rest.mask.secrets`). With or without it, asterisks in a
request are never a password: they mean "unchanged" for a stored secret and are rejected otherwise, or if the change
would send the secret elsewhere (connect/secret_redirection.py).
"""

from collections.abc import Collection, Mapping
from typing import Any

from twinlog.config.values import is_secret, only_references
from twinlog.connect.errors import ConnectError
from twinlog.connect.secret_redirection import redirected
from twinlog.text import MASK


def redacted(config: Mapping[str, str | None]) -> dict[str, str | None]:
    return {key: MASK if _hidden(key, text) else text for key, text in config.items()}


def redacted_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of a connector or task, with its configuration redacted."""
    return {**info, "config": redacted(info["config"])}


def restored(config: Mapping[str, str | None], stored: Mapping[str, str | None]) -> dict[str, str | None]:
    """The configuration that a client sent, with asterisks replaced by the stored secrets."""
    unknown = [key for key, text in config.items() if text == MASK and not _hidden(key, stored.get(key))]
    if unknown:
        raise ConnectError(
            400,
            f"{', '.join(sorted(unknown))} = {MASK}: masked value without a stored secret; send the actual value",
        )
    complete = {key: stored[key] if text == MASK else text for key, text in config.items()}
    _refuse_redirection(stored, complete, [key for key, text in config.items() if text == MASK])
    return complete


def patched(patch: Mapping[str, str | None], stored: Mapping[str, str | None], *, mask: bool) -> dict[str, str | None]:
    """The same for a patch, which keeps all other keys. Without `mask`, its author can read the secrets anyway."""
    complete = restored({**stored, **patch}, stored)
    unchanged = [key for key, text in stored.items() if mask and key not in patch and _hidden(key, text)]
    _refuse_redirection(stored, complete, unchanged)
    return {key: complete[key] for key in patch}


def _refuse_redirection(
    stored: Mapping[str, str | None], changed: Mapping[str, str | None], unchanged: Collection[str]
) -> None:
    if reason := redirected(stored, changed, unchanged):
        raise ConnectError(400, reason)


def _hidden(key: str, text: str | None) -> bool:
    return text is not None and is_secret(key, text) and not only_references(text)
