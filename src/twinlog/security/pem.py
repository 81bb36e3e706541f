"""PEM as Kafka reads it (KIP-651): text around the blocks, line ends of any kind or none, one private key.

Not OpenSSL's reader, since that wants lines: a key that came through an environment variable or a one-line property
has blanks instead, and Kafka takes it.
"""

import base64
import binascii
import re
from collections.abc import Iterator

from twinlog.security.store import KeyEntry, Store, StoreError

_MARK = re.compile(r"(?<!-)-+(BEGIN|END)\s{0,8}([A-Z0-9 ]{1,40}?)-+")  # linear, however many dashes there are


def certificates(text: str) -> tuple[bytes, ...]:
    found = tuple(_decoded(body) for label, body in _blocks(text) if label.endswith("CERTIFICATE"))
    if not found:
        raise StoreError("there is no certificate in it (-----BEGIN CERTIFICATE-----)")
    return found


def read(key: str, chain: str) -> Store:
    """A keystore: the key and its certificates, which may stand in one text."""
    keys = [(label, body) for label, body in _blocks(key) if label.endswith("PRIVATE KEY")]
    if not keys:
        raise StoreError("there is no private key in it (-----BEGIN PRIVATE KEY-----)")
    if len(keys) > 1:
        raise StoreError(f"there are {len(keys)} private keys in it: leave one")
    ((label, body),) = keys
    if ":" in body:  # Proc-Type and DEK-Info
        raise StoreError(f"its {label} is encrypted in OpenSSL's old way: convert it with openssl pkcs8 -topk8")
    # Kafka refuses PKCS1 and SEC1 ("RSA PRIVATE KEY", "EC PRIVATE KEY"). The label changes nothing of what the key
    # is, and openssl writes them still, so they are taken.
    return Store((KeyEntry("", _decoded(body), certificates(chain)),), ())


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    begun: re.Match[str] | None = None
    for mark in _MARK.finditer(text):
        if mark[1] == "BEGIN":
            begun = mark
        elif begun is not None and begun[2].strip() == mark[2].strip():
            yield mark[2].strip(), text[begun.end() : mark.start()]
            begun = None


def _decoded(body: str) -> bytes:
    text = "".join("".join(line.split()) for line in body.splitlines() if ":" not in line)
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)  # Java can do without the last =
    except (binascii.Error, ValueError):
        raise StoreError("a block in it is not base64") from None
