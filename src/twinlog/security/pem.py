"""Reads PEM as Kafka does (KIP-651): text around the blocks, any line endings or none, one private key.

OpenSSL's reader requires line breaks. Kafka does not: a key from an environment variable or a one-line property has
blanks instead.
"""

import base64
import binascii
import re
from collections.abc import Iterator

from twinlog.security.keystore_entries import KeyEntry, Store, StoreError

_MARK = re.compile(r"(?<!-)-+(BEGIN|END)\s{0,8}([A-Z0-9 ]{1,40}?)-+")  # linear, however many dashes there are


def certificates(text: str) -> tuple[bytes, ...]:
    found = tuple(_decoded(body) for label, body in _blocks(text) if label.endswith("CERTIFICATE"))
    if not found:
        raise StoreError("no certificate found", "add a block that begins with -----BEGIN CERTIFICATE-----")
    return found


def read(key: str, chain: str) -> Store:
    """A private key and its certificates; `key` and `chain` may be the same text."""
    keys = [(label, body) for label, body in _blocks(key) if label.endswith("PRIVATE KEY")]
    if not keys:
        raise StoreError("no private key found", "add a block that begins with -----BEGIN PRIVATE KEY-----")
    if len(keys) > 1:
        raise StoreError(f"{len(keys)} private keys found, expected one", "remove the others")
    ((label, body),) = keys
    if ":" in body:  # Proc-Type and DEK-Info
        raise StoreError(f"{label} has OpenSSL's legacy encryption", "convert it with openssl pkcs8 -topk8")
    # Kafka rejects PKCS1 and SEC1 ("RSA PRIVATE KEY", "EC PRIVATE KEY"); openssl still writes them, so they are
    # accepted here.
    return Store((KeyEntry("", _decoded(body), certificates(chain)),), ())


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    begin: re.Match[str] | None = None
    for mark in _MARK.finditer(text):
        if mark[1] == "BEGIN":
            begin = mark
        elif begin is not None and begin[2].strip() == mark[2].strip():
            yield mark[2].strip(), text[begin.end() : mark.start()]
            begin = None


def _decoded(body: str) -> bytes:
    text = "".join("".join(line.split()) for line in body.splitlines() if ":" not in line)
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)  # Java does not require the padding
    except (binascii.Error, ValueError):
        raise StoreError("damaged PEM block (not base64)", "check the PEM text") from None
