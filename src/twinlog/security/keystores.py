"""Reads certificates and keys from a client's `ssl.truststore.*` and `ssl.keystore.*`, by the rules of Kafka and Java.

| type       | source                      | passwords                                                             |
|------------|-----------------------------|-----------------------------------------------------------------------|
| JKS        | `.location`                 | optional for a truststore; `ssl.keystore.password` for a keystore      |
| PKCS12     | `.location`                 | the same; encrypted parts of a truststore are skipped without one      |
| PEM        | `.location`, or inline      | only `ssl.key.password`, for an encrypted key                         |

JKS and PKCS12 are distinguished by a file's first bytes, not by the type setting: Java accepts either type for both.
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
from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security import jks, password_encryption, pem, pkcs12
from twinlog.security.asn1 import certificate_names
from twinlog.security.keystore_entries import KeyEntry, Store, StoreError, WrongPasswordError

MAX_BYTES: Final = 1 << 20  # of a file
TRUSTSTORE: Final = "ssl.truststore.location"
KEYSTORE: Final = "ssl.keystore.location"
_CERTIFICATES: Final = "ssl.truststore.certificates"
_KEY: Final = "ssl.keystore.key"
_CHAIN: Final = "ssl.keystore.certificate.chain"
_MAX_KEYS: Final = 100
_TYPES: Final = ("JKS", "PKCS12", "PEM", "JCEKS")

_log = logging.getLogger(__name__)

Files = Mapping[str, bytes]  # setting -> content


@dataclass(frozen=True, slots=True)
class Identity:
    """The client's private key and its certificate chain."""

    alias: str
    key: PrivateKeyTypes = field(repr=False)
    chain: tuple[bytes, ...] = field(repr=False)


def written(config: Client, key: str) -> str:
    """A setting's name as the operator wrote it, e.g. `us.ssl.truststore.location`."""
    return (config.values[key].origin.key or key) if key in config.values else key


def trust_place(config: Client) -> str:
    """The setting of the trusted certificates, and its value; empty if not set."""
    return next((_place(config, key) for key in (_CERTIFICATES, TRUSTSTORE) if config[key] is not None), "")


def key_place(config: Client) -> str:
    """The same for the client's own certificate."""
    return next((_place(config, key) for key in (_KEY, KEYSTORE) if config[key] is not None), "")


def read_files(config: Client) -> dict[str, bytes]:
    """The content of the files named by the settings, read once: what is compared for changes is also what is parsed.

    Includes the files of a mounted secret whose text is in the settings, since the secret may have been rotated since.
    """
    found = {key: _read(config, key, config[key]) for key in (TRUSTSTORE, KEYSTORE) if config[key] is not None}
    for key in (_CERTIFICATES, _KEY, _CHAIN):
        files = config.values[key].files if key in config.values else ()
        if files and all(map(os.path.exists, files)):  # an executor on another machine does not mount the secret
            found[key] = b"\n".join(_read(config, key, file) for file in files)
    return found


def trusted(config: Client, files: Files) -> tuple[bytes, ...] | None:
    """The trusted certificates. None: no truststore is set, so the system's authorities are trusted."""
    kind = _type(config, "ssl.truststore.type")
    if config[_CERTIFICATES] is not None:
        _check_inline(config, _CERTIFICATES, "ssl.truststore.type", TRUSTSTORE, "ssl.truststore.password")
        with _store_errors(config, _CERTIFICATES):
            return pem.certificates(_current_text(config, _CERTIFICATES, files))
    if config[TRUSTSTORE] is None:
        _check_location_set(config, "ssl.truststore.password", TRUSTSTORE)
        return None
    if kind == "PEM":
        _check_no_password(config, "ssl.truststore.password", "a PEM truststore has no password")
    data = files[TRUSTSTORE]
    _check_kind(config, TRUSTSTORE, "ssl.truststore.type", data)
    with _store_errors(config, TRUSTSTORE, "ssl.truststore.password"):
        if kind == "PEM":
            return pem.certificates(_text(data))
        store = _binary(data, config["ssl.truststore.password"])
    if not store.anchors:
        if store.encrypted:
            raise _unusable(config, TRUSTSTORE, "the certificates are encrypted", "set ssl.truststore.password")
        raise _unusable(config, TRUSTSTORE, "no trusted certificate in it", "import one with keytool -importcert")
    return store.anchors


def identities(config: Client, files: Files) -> tuple[Identity, ...]:
    """The client's own keys: none if no keystore is set, at most one of each key type."""
    kind = _type(config, "ssl.keystore.type")
    for one, other in ((_KEY, _CHAIN), (_CHAIN, _KEY)):
        if config[one] is not None and config[other] is None:
            raise ConfigError(f"{written(config, one)}: set without {other}", "set both")
    if config[_KEY] is not None:
        _check_inline(config, _KEY, "ssl.keystore.type", KEYSTORE, "ssl.keystore.password")
        with _store_errors(config, _KEY):
            key, chain = _current_text(config, _KEY, files), _current_text(config, _CHAIN, files)
            return _decrypted(config, _KEY, pem.read(key, chain), None)
    password = config["ssl.keystore.password"]
    if config[KEYSTORE] is None:
        _check_location_set(config, "ssl.keystore.password", KEYSTORE)
        return ()
    if kind == "PEM":
        _check_no_password(
            config, "ssl.keystore.password", "a PEM keystore has no password, only ssl.key.password for its key"
        )
    elif password is None:
        raise ConfigError(f"{written(config, KEYSTORE)}: set without ssl.keystore.password", "set both")
    data = files[KEYSTORE]
    _check_kind(config, KEYSTORE, "ssl.keystore.type", data)
    with _store_errors(config, KEYSTORE, "ssl.keystore.password"):
        store = pem.read(_text(data), _text(data)) if kind == "PEM" else _binary(data, password)
    return _decrypted(config, KEYSTORE, store, password)


def _current_text(config: Client, key: str, files: Files) -> str:
    return _text(files[key]) if key in files else str(config[key])


def _type(config: Client, key: str) -> str:
    kind = str(config[key]).upper()  # Java ignores the case of JKS and PKCS12
    if kind not in _TYPES:
        raise ConfigError(f"{written(config, key)} = {config[key]}: unknown store type", "use JKS, PKCS12 or PEM")
    return kind


def _check_inline(config: Client, inline: str, kind: str, location: str, password: str) -> None:
    if str(config[kind]).upper() != "PEM":
        raise ConfigError(f"{written(config, inline)}: requires PEM, but {kind} is {config[kind]}", f"set {kind} = PEM")
    if config[location] is not None:
        raise ConfigError(f"{written(config, inline)}: {written(config, location)} is set too", "remove one")
    _check_no_password(config, password, "PEM has no password, only ssl.key.password for an encrypted key")


def _check_no_password(config: Client, key: str, why: str) -> None:
    if config[key] is not None:
        raise ConfigError(f"{written(config, key)}: {why}", "remove it")


def _check_location_set(config: Client, password: str, location: str) -> None:
    if config[password] is not None:
        raise ConfigError(f"{written(config, password)}: set without {location}", "set both or none")


def _read(config: Client, key: str, path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a pipe must not block
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise _unusable(config, key, "not a file", "check the path")
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        what = (error.strerror if isinstance(error, OSError) else None) or "not a path"
        raise _unusable(config, key, what, "check the path and its permissions") from error
    if len(data) > MAX_BYTES:
        raise _unusable(config, key, f"larger than {MAX_BYTES >> 20} MiB, not a keystore", "check the path")
    return data


def _binary(data: bytes, password: str | None) -> Store:
    if not data:
        raise StoreError("empty file")
    if not jks.is_jks(data) and data[:1] != b"\x30":
        raise StoreError("neither JKS nor PKCS12")
    store = jks.read(data, password) if jks.is_jks(data) else pkcs12.read(data, password)
    if len(store.keys) > _MAX_KEYS:  # decrypting one takes time
        raise StoreError(f"{len(store.keys)} private keys, maximum is {_MAX_KEYS}", "use a separate keystore")
    return store


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")  # comments may be in any encoding


def _check_kind(config: Client, key: str, kind: str, data: bytes) -> None:
    looks = "JKS" if jks.is_jks(data) else "PKCS12" if data[:1] == b"\x30" else "PEM" if b"-BEGIN " in data else ""
    if looks and (looks == "PEM") != (str(config[kind]).upper() == "PEM"):
        raise _unusable(config, key, f"{looks} file, but {kind} is {config[kind]}", f"set {kind} = {looks}")


@contextlib.contextmanager
def _store_errors(config: Client, key: str, password: str = "ssl.key.password") -> Iterator[None]:  # noqa: S107
    """Adds the setting to the errors of the readers."""
    try:
        yield
    except WrongPasswordError:
        raise _unusable(
            config, key, "wrong password or damaged file", f"check {written(config, password)} and the file"
        ) from None
    except StoreError as error:
        raise _unusable(config, key, error.problem, error.advice) from None


def _place(config: Client, key: str) -> str:
    return f"{written(config, key)} = {config[key]}" if key in (TRUSTSTORE, KEYSTORE) else written(config, key)


def _unusable(config: Client, key: str, problem: str, advice: str) -> AuthenticationError:
    return AuthenticationError(f"{_place(config, key)}: {problem}", advice)


def _decrypted(config: Client, key: str, store: Store, password: str | None) -> tuple[Identity, ...]:
    """Java decrypts every key of a keystore with one password, and fails if it does not fit all."""
    key_password = config["ssl.key.password"]
    found = []
    with _store_errors(config, key, "ssl.key.password" if key_password is not None else "ssl.keystore.password"):
        for entry in store.keys:
            secret = password if key_password is None else key_password
            if secret is None and password_encryption.is_encrypted(entry.key):
                raise StoreError("the private key is encrypted", "set ssl.key.password")
            found.append(_identity(entry, secret or "", store))
    if not found:  # Java accepts this silently, and works with brokers that request no client certificate
        _log.warning("%s: no private key in it; brokers get no client certificate", _place(config, key))
    return _select(config, key, found)


def _identity(entry: KeyEntry, password: str, store: Store) -> Identity:
    der = password_encryption.open_key(entry.key, password)
    try:
        key = load_der_private_key(der, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise StoreError("damaged private key or unsupported key type") from None
    chain = entry.chain
    if not chain:
        public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        certificates = (*store.others, *store.trusted)
        leaf = next((der for der in certificates if certificate_names(der).public_key == public), None)
        if leaf is None:
            raise StoreError("no certificate for the private key", "add it to the keystore")
        chain = pkcs12.chain_from(leaf, pkcs12.by_subject(certificates))
    return Identity(entry.alias, key, chain)


def _select(config: Client, key: str, found: list[Identity]) -> tuple[Identity, ...]:
    """One identity of each key type, the first that is valid today: OpenSSL holds no more than that.

    Java selects among several keys by the issuers that the broker names.
    """
    kinds: dict[type, list[Identity]] = {}
    for each in found:
        kinds.setdefault(type(each.key), []).append(each)
    chosen = tuple(next(filter(_valid, same), same[0]) for same in kinds.values())
    if len(found) > len(chosen):
        names = " and ".join(repr(each.alias) for each in chosen)
        _log.warning("%s: %d private keys in it; using %s", _place(config, key), len(found), names)
    return chosen


def _valid(identity: Identity) -> bool:
    try:
        leaf = x509.load_der_x509_certificate(identity.chain[0])
        return leaf.not_valid_before_utc <= dt.datetime.now(dt.UTC) <= leaf.not_valid_after_utc
    except ValueError:
        return True  # the broker decides
