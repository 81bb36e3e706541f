"""Finds inline secrets in a connector's configuration, as opposed to references.

Like Connect, a worker stores configurations in the config topic as they were sent, so inline passwords are readable by
everyone with access to that topic, its backups or its replicas.
"""

from collections.abc import Mapping
from typing import Final

from twinlog.config.values import is_secret, only_references
from twinlog.errors import ConfigError
from twinlog.security import jaas

# Of Kafka's type PASSWORD, but public, unless the text contains the private key as well.
_CERTIFICATES: Final = ("ssl.truststore.certificates", "ssl.keystore.certificate.chain")
_BOOLEANS: Final = ("true", "false")  # such as tokenauth


def inline_secrets(config: Mapping[str, str | None]) -> list[str]:
    return sorted(key for key, text in config.items() if text and _is_inline(key, text.strip()))


def warning(config: Mapping[str, str | None], before: Mapping[str, str | None], topic: str) -> str:
    """A warning about inline secrets that `before` does not have; empty if there are none."""
    known = set(inline_secrets(before))
    if not (found := [key for key in inline_secrets(config) if key not in known]):
        return ""
    return (
        f"{', '.join(found)}: inline secrets, readable by everyone who can read topic {topic}; use references "
        "(${file:...}, ${dir:...}, ${env:...}), with config.providers in the worker file"
    )


def _is_inline(key: str, text: str) -> bool:
    if not is_secret(key, text) or only_references(text):
        return False
    if key.endswith(_CERTIFICATES):
        return "PRIVATE KEY" in text
    if not key.endswith(jaas.KEY):
        return True
    try:
        modules = jaas.parse(text)
    except ConfigError:
        return True  # unparsable: assume the worst
    return any(
        is_secret(option) and its not in _BOOLEANS and not only_references(its)
        for module in modules
        for option, its in module.options.items()
        if its
    )
