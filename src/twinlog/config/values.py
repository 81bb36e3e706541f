"""A configured value and its origin. Secrets are masked wherever it is shown."""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from twinlog.text import MASK

# Kafka's settings of type PASSWORD. A certificate chain is not a secret, but Kafka masks it, and it often has the key.
PASSWORD_KEYS = frozenset({
    "sasl.jaas.config",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
})  # fmt: skip

_SECRET_NAME = re.compile(
    r"pass(?:w|$|[._-])|passphrase|pwd|secret(?!\.location|\.file)|token(?!\.endpoint|\.location)|credential|api\.?key|private\.?key"
    r"|user\.info|access\.?key|jaas",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(
    r"passw(or)?d\s*=|LoginModule|-----BEGIN|//[^/\s]*:[^/\s]*@|[?&;]\w*(?:secret|token|key|pwd|pass)\w*=",
    re.IGNORECASE,
)
_HARMLESS_NAME = re.compile(r"client\.credentials\.client\.id$|\.class$|\.file$|\.url$")


def is_secret(key: str, text: str = "") -> bool:
    """Whether a value must never be shown. Names are matched loosely, to include a misspelt `sasl.jaas.confg`."""
    if _SECRET_TEXT.search(text):
        return True
    if _HARMLESS_NAME.search(key):
        return False
    bare = re.sub(r"^.*?(?=(?:ssl|sasl)\.)", "", key)
    if bare in PASSWORD_KEYS or _SECRET_NAME.search(key):
        return True
    return bare.startswith(("ssl.", "sasl.")) and bool(difflib.get_close_matches(bare, PASSWORD_KEYS, 1, 0.93))


def shown_key(key: str) -> str:
    """The key for printing: in a PEM text without line continuations each line of a private key is parsed as a key."""
    return MASK if re.fullmatch(r"[A-Za-z0-9+/]{20,}={0,2}", key) or "-----BEGIN" in key else key


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from: a line of a file, a default, or a rule that derived it."""

    kind: Literal["file", "default", "derived"]
    file: str = ""
    line: int = 0
    key: str = ""  # as the operator wrote it, e.g. `us->eu.topics`
    note: str = ""  # e.g. "alias of topics.exclude"

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}" if self.kind == "file" else self.kind
        return f"{text} ({self.note})" if self.note else text

    def noting(self, note: str) -> Self:
        return replace(self, note=note)


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True, repr=False)
class Value:
    """One configured text. `reference` is the text in the file if a `${provider:...}` in it was resolved.

    `files` contain the same text, concatenated: a mounted secret, which may be rotated at runtime.
    """

    key: str
    text: str
    origin: Origin
    reference: str = ""
    files: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The text for printing. A provider's values are usually secrets, so the reference is shown instead."""
        if self.reference:
            return self.reference if not _SECRET_TEXT.search(self.reference) else MASK
        return MASK if is_secret(self.key, self.text) and not only_references(self.text) else self.text

    def __repr__(self) -> str:
        return f"Value({self.key}={self.shown!r}, {self.origin})"

    def named(self, key: str) -> "Value":
        return replace(self, key=key)


def only_references(text: str) -> bool:
    return bool(re.fullmatch(r"(\$\{[^}]*\})+", text.strip()))


def derived(key: str, text: str, note: str) -> Value:
    return Value(key, text, Origin("derived", note=note))


class FrozenMap(Mapping[str, Any]):
    """An immutable mapping that can be pickled: configuration is sent to Spark's workers."""

    __slots__ = ("_items",)
    _items: dict[str, Any]

    def __init__(self, items: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_items", dict(items))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"FrozenMap is immutable: {name}")

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __reduce__(self) -> tuple[type[Self], tuple[dict[str, Any]]]:
        return type(self), (self._items,)

    def __repr__(self) -> str:
        return f"FrozenMap({self._items!r})"  # values mask themselves
