"""Reads PKCS12 files as Java does: several keys, trusted certificates, unencrypted parts without a password.

`cryptography` (50.0) decrypts what keytool and openssl write, but returns only the first key, drops Java's mark of
trusted certificates, needs the password for unencrypted parts, and does not limit the iterations of a damaged file.
"""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from twinlog.security import password_encryption
from twinlog.security.asn1 import OCTETS, SEQUENCE, SET, CertificateNames, Node, certificate_names, parse
from twinlog.security.keystore_entries import KeyEntry, Store, StoreError, WrongPasswordError

_DATA: Final = "1.2.840.113549.1.7.1"
_ENCRYPTED: Final = "1.2.840.113549.1.7.6"
_BAG: Final = "1.2.840.113549.1.12.10.1."
_X509: Final = "1.2.840.113549.1.9.22.1"
_NAME: Final = "1.2.840.113549.1.9.20"
_ID: Final = "1.2.840.113549.1.9.21"
_TRUSTED: Final = "2.16.840.1.113894.746875.1.1"  # Java's attribute of a trusted certificate
_LONGEST_CHAIN: Final = 20

Issuers = dict[bytes, tuple[bytes, CertificateNames]]  # subject -> certificate


@dataclass(slots=True)
class _Found:
    keys: list[tuple[str, bytes, bytes | None]] = field(default_factory=list)  # alias, key, id
    certificates: list[tuple[bytes, bytes | None, bool]] = field(default_factory=list)  # DER, id, marked as trusted
    encrypted: bool = False


def read(data: bytes, password: str | None) -> Store:
    """As in Java, without a password the digest is not checked and encrypted parts are skipped."""
    version, safe, *mac = parse(data).sequence(2)
    if version.integer() != 3:
        raise StoreError("not a PKCS12 file")
    kind, *content = safe.sequence(2)
    if kind.oid() != _DATA:
        raise StoreError("PKCS12 with public-key integrity is not supported", password_encryption.CONVERT)
    inside = content[0].explicit(0).octets()
    if mac and password is not None:
        password = _check_mac(mac[0], inside, password)
    found = _Found()
    for part in parse(inside).expect(SEQUENCE).children():
        _read_part(part, password, found)
    return _store(found)


def _read_part(part: Node, password: str | None, found: _Found) -> None:
    kind, *content = part.sequence(2)
    if kind.oid() == _DATA:
        _read_bags(parse(content[0].explicit(0).octets()), found)
    elif kind.oid() != _ENCRYPTED:
        raise StoreError("PKCS12 with public-key encryption is not supported", password_encryption.CONVERT)
    elif password is None:
        found.encrypted = True
    else:
        _, algorithm, *encrypted = content[0].explicit(0).sequence(2)[1].sequence(2)
        if not encrypted:
            raise StoreError("damaged file (encrypted part empty)")
        plain = password_encryption.decrypt(algorithm, encrypted[0].octets(), password)
        _read_bags(parse(plain), found)


def _read_bags(bags: Node, found: _Found) -> None:
    for bag in bags.expect(SEQUENCE).children():
        kind, value, *rest = bag.sequence(2)
        inside = value.explicit(0)
        attributes = _attributes(rest[0]) if rest else {}
        match kind.oid().removeprefix(_BAG):
            case "1" | "2":  # a plain key, an encrypted key
                found.keys.append((_text(attributes.get(_NAME)), inside.whole, _octets(attributes.get(_ID))))
            case "3":
                form, *certificate = inside.sequence(2)
                if form.oid() == _X509:
                    der = certificate[0].explicit(0).octets()
                    found.certificates.append((der, _octets(attributes.get(_ID)), _TRUSTED in attributes))
            case "6":
                _read_bags(inside, found)
            case _:
                pass  # revocation lists and secrets are not needed


def _attributes(node: Node) -> dict[str, Node]:
    found = {}
    for attribute in node.expect(SET).children():
        name, values, *_ = attribute.sequence(2)
        if each := values.expect(SET).children():
            found[name.oid()] = each[0]
    return found


def _text(node: Node | None) -> str:
    return node.content.decode("utf-16-be", "replace") if node else ""


def _octets(node: Node | None) -> bytes | None:
    return node.octets() if node else None


def _store(found: _Found) -> Store:
    marked = tuple(der for der, _, trusted in found.certificates if trusted)
    others = tuple(der for der, _, trusted in found.certificates if not trusted)
    if not found.keys and not marked:
        # openssl does not set Java's attribute, so Java trusts nothing in such a file. But in a file without a key,
        # certificates can only be meant as trusted.
        marked, others = others, ()
    issuers = by_subject(der for der, _, _ in found.certificates)
    ids = {identity: der for der, identity, _ in reversed(found.certificates) if identity is not None}
    keys = []
    for alias, key, identity in found.keys:
        leaf = ids.get(identity) if identity is not None else None
        keys.append(KeyEntry(alias, key, chain_from(leaf, issuers) if leaf else ()))
    return Store(tuple(keys), marked, others, found.encrypted)


def by_subject(certificates: Iterable[bytes]) -> Issuers:
    named: Issuers = {}
    for der in certificates:
        names = certificate_names(der)
        named.setdefault(names.subject, (der, names))
    return named


def chain_from(leaf: bytes, issuers: Issuers) -> tuple[bytes, ...]:
    """The certificate followed by its issuers, as far as they are present."""
    chain, names = [leaf], certificate_names(leaf)
    while names.issuer != names.subject and names.issuer in issuers and len(chain) < _LONGEST_CHAIN:
        der, names = issuers[names.issuer]
        if der in chain:
            break
        chain.append(der)
    return tuple(chain)


def _check_mac(mac: Node, inside: bytes, password: str) -> str:
    """Checks the file's digest. An empty password has two encodings."""
    info, *parameters = mac.sequence(2)
    algorithm, wanted = info.sequence(2)[:2]
    name, *more = algorithm.sequence(1)
    digest = wanted.expect(OCTETS).octets()
    if name.oid() == password_encryption.PBMAC1:
        if not more:
            raise StoreError("damaged file (digest)")
        derivation, kind = more[0].sequence(2)[:2]
        hashed = password_encryption.hmac_digest(kind)
        keys = [password_encryption.pbkdf2(derivation, password, len(digest))]
    else:
        if name.oid() not in password_encryption.DIGESTS:
            raise StoreError(f"digest {name.oid()} is not supported", password_encryption.CONVERT)
        hashed = password_encryption.DIGESTS[name.oid()]
        salt = password_encryption.checked_salt(parameters[0])
        rounds = password_encryption.iterations(parameters[1]) if len(parameters) > 1 else 1
        secrets = [password_encryption.bmp(password)] if password else [password_encryption.bmp(""), b""]
        size = hashlib.new(hashed).digest_size
        keys = [password_encryption.pkcs12_key(hashed, 3, secret, salt, rounds, size) for secret in secrets]
    if not any(hmac.compare_digest(hmac.new(key, inside, hashed).digest(), digest) for key in keys):
        raise WrongPasswordError("wrong password or damaged file")
    return password
