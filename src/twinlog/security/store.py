"""What a keystore holds, whichever format it is written in; and the two ways in which one cannot be read."""

from dataclasses import dataclass, field


class StoreError(ValueError):
    """What is wrong with a keystore, as the end of a sentence. Never a password, never a byte of a key."""


class WrongPasswordError(StoreError):
    """The password does not open it; or the file was damaged, which no format can tell apart."""


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A private key, PKCS8 and usually still under its password, and its certificates, the key's own one first.

    An empty chain means that the file does not say which certificates are the key's.
    """

    alias: str
    key: bytes = field(repr=False)
    chain: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Store:
    """Certificates are DER, and not looked into: OpenSSL is the one that must like them."""

    keys: tuple[KeyEntry, ...]
    trusted: tuple[bytes, ...] = field(repr=False)
    others: tuple[bytes, ...] = field(default=(), repr=False)  # neither trusted nor said to be a key's
    locked: bool = False  # parts were skipped, because no password was given

    @property
    def anchors(self) -> tuple[bytes, ...]:
        """What Java trusts of it: trusted entries, and of every key its own certificate, but not who issued that."""
        return tuple(dict.fromkeys((*self.trusted, *(entry.chain[0] for entry in self.keys if entry.chain))))
