"""Translates cipher suites from Java's (IANA's) names to OpenSSL's.

| Java                                    | OpenSSL                       |
|-----------------------------------------|-------------------------------|
| TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256   | ECDHE-RSA-AES128-GCM-SHA256   |
| TLS_RSA_WITH_AES_256_CBC_SHA            | AES256-SHA                    |
| TLS_AES_256_GCM_SHA384 (of TLS 1.3)     | the same                      |
"""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_MODERN: Final = ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256")
_SIGNAL: Final = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"  # not a cipher; OpenSSL always sends it

_EXCHANGES: Final = {
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "ECDHE_RSA": "ECDHE-RSA-",
    "DHE_RSA": "DHE-RSA-",
    "DHE_DSS": "DHE-DSS-",
    "RSA": "",
}
_CIPHERS: Final = {
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA": "AES128-SHA",
}
# Names that Java knows but has disabled (`jdk.tls.disabledAlgorithms`).
_DISABLED: Final = ("_NULL_", "_anon_", "_RC4_", "_DES_", "_DES40_", "_3DES_", "_ECDH_", "_KRB5_", "_EXPORT_")


@dataclass(frozen=True, slots=True)
class Suites:
    """`older`: for TLS 1.2, in OpenSSL's names. `modern`: for TLS 1.3. `unused`: known to Java, not available here."""

    older: tuple[str, ...]
    modern: tuple[str, ...]
    unused: tuple[str, ...]


def translate(names: Iterable[str]) -> Suites:
    """ValueError names an unknown suite. Case-sensitive, as in Java."""
    older: list[str] = []
    modern: list[str] = []
    unused: list[str] = []
    for name in names:
        if name in _MODERN:
            modern.append(name)
        elif name == _SIGNAL:
            continue
        elif any(word in name for word in _DISABLED) and name.startswith(("TLS_", "SSL_")):
            unused.append(name)
        elif (found := openssl_name(name)) is None:
            raise ValueError(f"{name} is not a cipher suite; use names such as {_MODERN[0]}")
        elif _offered(found):
            older.append(found)
        else:
            unused.append(name)
    return Suites(tuple(older), tuple(modern), tuple(unused))


def openssl_name(name: str) -> str | None:
    """None for a name that Java would reject."""
    exchange, found, cipher = name.removeprefix("TLS_").partition("_WITH_")
    if not (found and name.startswith("TLS_") and exchange in _EXCHANGES and cipher in _CIPHERS):
        return None
    return _EXCHANGES[exchange] + _CIPHERS[cipher]


def _offered(name: str) -> bool:
    """Whether this machine's OpenSSL supports it."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(name)
    except ssl.SSLError:
        return False
    return True
