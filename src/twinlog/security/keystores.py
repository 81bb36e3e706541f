"""From a client's `ssl.truststore.*` and `ssl.keystore.*` to certificates and keys, by the rules of Kafka and Java.

| type       | where it stands             | passwords                                                           |
|------------|-----------------------------|---------------------------------------------------------------------|
| JKS        | `.location`                 | a truststore opens without; a keystore wants `ssl.keystore.password` |
| PKCS12     | `.location`                 | likewise; what is encrypted in a truststore is skipped without       |
| PEM        | `.location`, or in the file | only `ssl.key.password`, for an encrypted key                       |

The first bytes of a file say whether it is JKS or PKCS12, whatever its type says: Java reads either as the other.
"""

import contextlib
import datetime as dt
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_private_key

from twinlog.config.flows import Client
from twinlog.errors import ConfigError, LockedError
from twinlog.security import jks, pbe, pem, pkcs12
from twinlog.security.asn1 import certificate_names
from twinlog.security.store import KeyEntry, Store, StoreError, WrongPasswordError

LARGEST: Final = 1 << 20  # bytes of a file
TRUSTSTORE: Final = "ssl.truststore.location"
KEYSTORE: Final = "ssl.keystore.location"
_CERTIFICATES: Final = "ssl.truststore.certificates"
_KEY: Final = "ssl.keystore.key"
_CHAIN: Final = "ssl.keystore.certificate.chain"
_MOST_KEYS: Final = 100
_TYPES: Final = ("JKS", "PKCS12", "PEM", "JCEKS")

_log = logging.getLogger(__name__)

Files = Mapping[str, bytes]  # setting -> content


@dataclass(frozen=True, slots=True)
class Identity:
    """Who we say we are: a key, and its certificate with those that issued it."""

    alias: str
    key: PrivateKeyTypes = field(repr=False)
    chain: tuple[bytes, ...] = field(repr=False)


def written(config: Client, key: str) -> str:
    """A setting's name as the operator wrote it, e.g. `us.ssl.truststore.location`."""
    return (config.values[key].origin.key or key) if key in config.values else key


def trust_place(config: Client) -> str:
    """Where the trusted certificates are said to be; empty if nowhere."""
    return next((_place(config, key) for key in (_CERTIFICATES, TRUSTSTORE) if config[key] is not None), "")


def key_place(config: Client) -> str:
    """Likewise our own."""
    return next((_place(config, key) for key in (_KEY, KEYSTORE) if config[key] is not None), "")


def read_files(config: Client) -> dict[str, bytes]:
    """The files that the settings name, whole: what is compared with the last time is then what is parsed.

    Also those of a mounted secret whose text is in the settings: there it may be the one of last year.
    """
    found = {key: _read(config, key, config[key]) for key in (TRUSTSTORE, KEYSTORE) if config[key] is not None}
    for key in (_CERTIFICATES, _KEY, _CHAIN):
        files = config.values[key].files if key in config.values else ()
        if files and all(map(os.path.exists, files)):  # an executor elsewhere has no such folder
            found[key] = b"\n".join(_read(config, key, file) for file in files)
    return found


def trusted(config: Client, files: Files) -> tuple[bytes, ...] | None:
    """The certificates that are trusted. None: no truststore is set, so the system's are."""
    kind = _type(config, "ssl.truststore.type")
    if config[_CERTIFICATES] is not None:
        _refuse_beside(config, _CERTIFICATES, "ssl.truststore.type", TRUSTSTORE, "ssl.truststore.password")
        with _telling(config, _CERTIFICATES):
            return pem.certificates(_newest(config, _CERTIFICATES, files))
    if config[TRUSTSTORE] is None:
        _refuse_alone(config, "ssl.truststore.password", TRUSTSTORE)
        return None
    if kind == "PEM":
        _refuse_password(config, "ssl.truststore.password", "a PEM truststore has none")
    data = files[TRUSTSTORE]
    _check_kind(config, TRUSTSTORE, "ssl.truststore.type", data)
    with _telling(config, TRUSTSTORE, "ssl.truststore.password"):
        if kind == "PEM":
            return pem.certificates(_text(data))
        store = _binary(data, config["ssl.truststore.password"])
    if not store.anchors:
        why = "its certificates are encrypted: set ssl.truststore.password" if store.locked else "it holds none"
        raise _locked(config, TRUSTSTORE, f"no certificate to trust could be read: {why}")
    return store.anchors


def identities(config: Client, files: Files) -> tuple[Identity, ...]:
    """Our own keys: none if no keystore is set, at most one of each kind of key."""
    kind = _type(config, "ssl.keystore.type")
    for one, other in ((_KEY, _CHAIN), (_CHAIN, _KEY)):
        if config[one] is not None and config[other] is None:
            raise ConfigError(f"{written(config, one)} is set without {other}: set both")
    if config[_KEY] is not None:
        _refuse_beside(config, _KEY, "ssl.keystore.type", KEYSTORE, "ssl.keystore.password")
        with _telling(config, _KEY):
            key, chain = _newest(config, _KEY, files), _newest(config, _CHAIN, files)
            return _opened(config, _KEY, pem.read(key, chain), None)
    password = config["ssl.keystore.password"]
    if config[KEYSTORE] is None:
        _refuse_alone(config, "ssl.keystore.password", KEYSTORE)
        return ()
    if kind == "PEM":
        _refuse_password(config, "ssl.keystore.password", "a PEM keystore has none, only ssl.key.password")
    elif password is None:
        raise ConfigError(f"{written(config, KEYSTORE)} is set without ssl.keystore.password: set both")
    data = files[KEYSTORE]
    _check_kind(config, KEYSTORE, "ssl.keystore.type", data)
    with _telling(config, KEYSTORE, "ssl.keystore.password"):
        store = pem.read(_text(data), _text(data)) if kind == "PEM" else _binary(data, password)
    return _opened(config, KEYSTORE, store, password)


def _newest(config: Client, key: str, files: Files) -> str:
    return _text(files[key]) if key in files else str(config[key])


def _type(config: Client, key: str) -> str:
    kind = str(config[key]).upper()  # Java knows JKS and PKCS12 in any case
    if kind not in _TYPES:
        raise ConfigError(f"{written(config, key)} = {config[key]}: expected JKS, PKCS12 or PEM")
    return kind


def _refuse_beside(config: Client, inline: str, kind: str, location: str, password: str) -> None:
    if str(config[kind]).upper() != "PEM":
        raise ConfigError(f"{written(config, inline)} is PEM, but {kind} is {config[kind]}: set {kind} = PEM")
    if config[location] is not None:
        raise ConfigError(f"{written(config, inline)} and {written(config, location)} are both set: remove one")
    _refuse_password(config, password, "PEM has none, only ssl.key.password for an encrypted key")


def _refuse_password(config: Client, key: str, why: str) -> None:
    if config[key] is not None:
        raise ConfigError(f"{written(config, key)} is set, but {why}: remove it")


def _refuse_alone(config: Client, password: str, location: str) -> None:
    if config[password] is not None:
        raise ConfigError(f"{written(config, password)} is set without {location}: set both or none")


def _read(config: Client, key: str, path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not hold us up
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise _locked(config, key, "not a file")
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        what = (error.strerror if isinstance(error, OSError) else None) or "not a path"
        raise _locked(config, key, f"{what}: check the path, and that it may be read") from error
    if len(data) > LARGEST:
        raise _locked(config, key, f"larger than {LARGEST >> 20} MiB: this is no keystore")
    return data


def _binary(data: bytes, password: str | None) -> Store:
    if not data:
        raise StoreError("it is empty")
    if not jks.is_jks(data) and data[:1] != b"\x30":
        raise StoreError("it is neither JKS nor PKCS12")
    store = jks.read(data, password) if jks.is_jks(data) else pkcs12.read(data, password)
    if len(store.keys) > _MOST_KEYS:  # each takes a while to open
        raise StoreError(f"it holds {len(store.keys)} private keys: give this client a keystore of its own")
    return store


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")  # comments may be in any encoding


def _check_kind(config: Client, key: str, kind: str, data: bytes) -> None:
    looks = "JKS" if jks.is_jks(data) else "PKCS12" if data[:1] == b"\x30" else "PEM" if b"-BEGIN " in data else ""
    if looks and (looks == "PEM") != (str(config[kind]).upper() == "PEM"):
        raise _locked(config, key, f"this is a {looks} file, but {kind} is {config[kind]}: set {kind} = {looks}")


@contextlib.contextmanager
def _telling(config: Client, key: str, password: str = "ssl.key.password") -> Iterator[None]:  # noqa: S107  (a name)
    """Turns what a reader says into a whole sentence."""
    try:
        yield
    except WrongPasswordError:
        raise _locked(config, key, f"{written(config, password)} is wrong, or the file is damaged") from None
    except StoreError as error:
        raise _locked(config, key, str(error)) from None


def _place(config: Client, key: str) -> str:
    return f"{written(config, key)} = {config[key]}" if key in (TRUSTSTORE, KEYSTORE) else written(config, key)


def _locked(config: Client, key: str, what: str) -> LockedError:
    return LockedError(f"{_place(config, key)}: {what}")


def _opened(config: Client, key: str, store: Store, password: str | None) -> tuple[Identity, ...]:
    """Java opens every key of a keystore by the one password, and fails if one stays shut."""
    own = config["ssl.key.password"]
    found = []
    with _telling(config, key, "ssl.key.password" if own is not None else "ssl.keystore.password"):
        for entry in store.keys:
            secret = password if own is None else own
            if secret is None and pbe.is_encrypted(entry.key):
                raise StoreError("the private key is encrypted: set ssl.key.password")
            found.append(_identity(entry, secret or "", store))
    if not found:  # Java says nothing, and works with a broker that asks for no certificate
        _log.warning("%s holds no private key: no certificate is shown to brokers", _place(config, key))
    return _chosen(config, key, found)


def _identity(entry: KeyEntry, password: str, store: Store) -> Identity:
    der = pbe.open_key(entry.key, password)
    try:
        key = load_der_private_key(der, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise StoreError("its private key is damaged, or of a kind that is not supported") from None
    chain = entry.chain
    if not chain:
        public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        every = (*store.others, *store.trusted)
        leaf = next((der for der in every if certificate_names(der).public_key == public), None)
        if leaf is None:
            raise StoreError("it has no certificate for its private key")
        chain = pkcs12.chain_from(leaf, pkcs12.by_subject(every))
    return Identity(entry.alias, key, chain)


def _chosen(config: Client, key: str, found: list[Identity]) -> tuple[Identity, ...]:
    """Java picks among several keys by the issuers that the broker names. OpenSSL holds one of each kind of key: the
    first that is valid today.
    """
    kinds: dict[type, list[Identity]] = {}
    for each in found:
        kinds.setdefault(type(each.key), []).append(each)
    chosen = tuple(next(filter(_valid, same), same[0]) for same in kinds.values())
    if len(found) > len(chosen):
        names = " and ".join(repr(each.alias) for each in chosen)
        _log.warning("%s holds %d private keys: %s is used", _place(config, key), len(found), names)
    return chosen


def _valid(identity: Identity) -> bool:
    try:
        leaf = x509.load_der_x509_certificate(identity.chain[0])
        return leaf.not_valid_before_utc <= dt.datetime.now(dt.UTC) <= leaf.not_valid_after_utc
    except ValueError:
        return True  # the broker will say
