"""The entries of a keystore of any format, and the errors of reading one."""

from dataclasses import dataclass, field


class StoreError(ValueError):
    """Why a keystore cannot be used, without the keystore's name. Never shows a password or a key."""

    def __init__(self, problem: str, advice: str = "replace the keystore") -> None:
        super().__init__(problem)
        self.problem = problem
        self.advice = advice


class WrongPasswordError(StoreError):
    """The password is wrong, or the file is damaged: no format distinguishes the two."""


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A private key (PKCS8, usually encrypted) and its certificate chain, the key's own certificate first.

    The chain is empty if the file does not state which certificates belong to the key.
    """

    alias: str
    key: bytes = field(repr=False)
    chain: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Store:
    """Certificates are DER and not validated here: OpenSSL does that."""

    keys: tuple[KeyEntry, ...]
    trusted: tuple[bytes, ...] = field(repr=False)
    others: tuple[bytes, ...] = field(default=(), repr=False)  # neither trusted nor marked as a key's
    encrypted: bool = False  # parts were skipped because no password was given

    @property
    def anchors(self) -> tuple[bytes, ...]:
        """What Java trusts: the trusted entries and each key's own certificate, but not that certificate's issuers."""
        return tuple(dict.fromkeys((*self.trusted, *(entry.chain[0] for entry in self.keys if entry.chain))))
