"""A client's `ssl.*` settings as a Python SSLContext that accepts and refuses what Java would.

Where the two differ:
* Java never looks at the dates of a trusted certificate; OpenSSL does, so an expired one in the truststore is refused.
* Java takes SHA-1 signatures of private authorities; OpenSSL does not. Both take RSA keys of 1024 bits.
* Before Python 3.15 nobody can choose among the three suites of TLS 1.3: `handshake` refuses what was not listed.
"""

import contextlib
import hashlib
import logging
import os
import secrets
import ssl
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from twinlog.config.clients import CONNECTION_KEYS
from twinlog.config.flows import Client
from twinlog.errors import ConfigError, LockedError
from twinlog.security import ciphers, keystores
from twinlog.security.keystores import Files, Identity, written

PROTOCOLS: Final = "ssl.enabled.protocols"
PROTOCOL: Final = "ssl.protocol"
SUITES: Final = "ssl.cipher.suites"
IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD: Final = ("TLSv1.1", "TLSv1", "SSLv3", "SSLv2Hello")  # Java knows the names and has them disabled
_CAPS: Final = {"TLS": "TLSv1.3", "SSL": "TLSv1.3", "TLSV1.3": "TLSv1.3", "TLSV1.2": "TLSv1.2"}
# Level 1 asks for 80 bits of security: RSA keys from 1024 bits on, as Java. Level 2, the usual default, wants 2048.
_LEVEL: Final = ":@SECLEVEL=1"
# Where OpenSSL was built for another system than this one, it finds no authorities at the place that it knows.
_SYSTEM: Final = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_NO_PARTIAL_WILDCARDS: Final = 0x4  # OpenSSL's X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS
_MOST: Final = 64  # contexts that are kept

_SETTINGS: Final = tuple(key for key in CONNECTION_KEYS if key.startswith("ssl."))
_log = logging.getLogger(__name__)


def context(config: Client) -> ssl.SSLContext:
    """Shared by all who ask with these settings, from any thread: do not change it.

    Ask for every connection: a file that was changed since shows at once. One that cannot be read for the moment
    leaves the last context in use.
    """
    return _CONTEXTS.get(config)


@dataclass(slots=True)
class _Held:
    context: ssl.SSLContext
    mark: str
    failed: str = ""  # the mark of files that could not be read
    warned: bool = False


class Contexts:
    """By settings and by what the files hold: not their times, which a rotation within one tick leaves as they were."""

    def __init__(self) -> None:
        self._held: dict[tuple[str | None, ...], _Held] = {}
        self._lock = threading.Lock()

    def get(self, config: Client) -> ssl.SSLContext:
        key = tuple(config.values[name].text if name in config.values else None for name in _SETTINGS)
        with self._lock:
            held = self._held.get(key)
            mark = ""
            try:
                files = keystores.read_files(config)
                mark = hashlib.sha256(b"".join(hashlib.sha256(data).digest() for data in files.values())).hexdigest()
                if held is not None and mark in (held.mark, held.failed):
                    held.warned = held.warned and mark == held.failed
                    return held.context
                made = build(config, files)
            except LockedError as error:
                if held is None:
                    raise
                held.failed = mark
                if not held.warned:
                    held.warned = True
                    _log.warning("%s; what was read before stays in use", error)
                return held.context
            if len(self._held) >= _MOST:
                self._held.clear()
            self._held[key] = _Held(made, mark)
            return made


_CONTEXTS: Final = Contexts()


def build(config: Client, files: Files) -> ssl.SSLContext:
    """ConfigError: the settings contradict each other. LockedError: a file cannot be used."""
    suites = _suites(config)
    versions = _versions(config, suites)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # by hand: create_default_context is stricter from 3.13 on
    made.minimum_version, made.maximum_version = _VERSIONS[versions[0]], _VERSIONS[versions[-1]]
    made.set_ciphers((":".join(suites.older) if suites and suites.older else "DEFAULT") + _LEVEL)
    if suites and suites.modern and (choose := getattr(made, "set_ciphersuites", None)):
        choose(":".join(suites.modern))
    made.options |= ssl.OP_NO_RENEGOTIATION  # no broker asks for it
    made.check_hostname = _checks_names(config)
    made.verify_mode = ssl.CERT_REQUIRED
    # A trusted certificate need not be a root: an intermediate one, or the broker's own, will do, as in Java.
    made.verify_flags = ssl.VERIFY_X509_TRUSTED_FIRST | ssl.VERIFY_X509_PARTIAL_CHAIN
    _identify_like_java(made)
    _trust(made, config, files)
    for identity in keystores.identities(config, files):
        load_identity(made, identity, config)
    return made


def allowed_suites(config: Client) -> tuple[str, ...]:
    """Of TLS 1.3; empty where any will do."""
    suites = _suites(config)
    return suites.modern if suites else ()


def _suites(config: Client) -> ciphers.Suites | None:
    if not config[SUITES]:
        return None
    try:
        suites = ciphers.translate(config[SUITES])
    except ValueError as error:
        raise ConfigError(f"{written(config, SUITES)}: {error}") from None
    if not (suites.older or suites.modern):
        raise ConfigError(
            f"{written(config, SUITES)} = {','.join(config[SUITES])}: none of these is secure enough to use"
        )
    return suites


def _versions(config: Client, suites: ciphers.Suites | None) -> list[str]:
    """Those that may be used, the oldest first; OpenSSL is told a range."""
    cap = _CAPS.get(config[PROTOCOL].upper())  # Java looks it up without regard to case
    if cap is None:
        raise ConfigError(f"{written(config, PROTOCOL)} = {config[PROTOCOL]}: expected TLSv1.3 or TLSv1.2")
    for name in config[PROTOCOLS]:
        if name not in _VERSIONS and name not in _OLD:
            raise ConfigError(f"{written(config, PROTOCOLS)} = {name}: expected TLSv1.2, TLSv1.3")
    enabled = config[PROTOCOLS] or tuple(_VERSIONS)
    found = [name for name in _VERSIONS if name in enabled]
    if not found:
        raise ConfigError(
            f"{written(config, PROTOCOLS)} = {','.join(enabled)}: too old, Java refuses it as well: set TLSv1.2,TLSv1.3"
        )
    found = [name for name in found if name <= cap]
    if not found:
        raise ConfigError(
            f"{written(config, PROTOCOLS)} = {','.join(enabled)} is more than {PROTOCOL} = {config[PROTOCOL]} allows: "
            f"set {PROTOCOL} = TLSv1.3"
        )
    if suites is not None:
        found = [name for name in found if (suites.modern if name == "TLSv1.3" else suites.older)]
    if not found:
        raise ConfigError(
            f"{written(config, SUITES)} = {','.join(config[SUITES])}: none of these is for {PROTOCOLS} = "
            f"{','.join(enabled)}: TLSv1.3 has suites of its own, like TLS_AES_256_GCM_SHA384"
        )
    return found


def _checks_names(config: Client) -> bool:
    algorithm = config[IDENTIFICATION].lower()
    if algorithm not in ("https", "ldaps", ""):  # Java: any case; both look at the same names
        raise ConfigError(
            f"{written(config, IDENTIFICATION)} = {config[IDENTIFICATION]}: expected https, or nothing to let a broker "
            "have a certificate for any name"
        )
    return bool(algorithm)


def _identify_like_java(made: ssl.SSLContext) -> None:
    # The common name counts where the certificate has no alternative name of type DNS; so it does in Java.
    made.hostname_checks_common_name = True
    # `kafka*.example.com` is fine with Java. Python forbids it by a flag that has no public name.
    if hasattr(made, "_host_flags"):
        made._host_flags &= ~_NO_PARTIAL_WILDCARDS  # noqa: SLF001


def _trust(made: ssl.SSLContext, config: Client, files: Files) -> None:
    certificates = keystores.trusted(config, files)
    if certificates is None:
        made.load_default_certs(ssl.Purpose.SERVER_AUTH)
        known = ssl.get_default_verify_paths()
        if not (known.cafile or known.capath):
            for path in filter(os.path.exists, _SYSTEM):
                made.load_verify_locations(path)
        return
    try:
        made.load_verify_locations(cadata=b"".join(certificates))
    except (ssl.SSLError, ValueError) as error:
        raise LockedError(
            f"{keystores.trust_place(config)}: a certificate in it is damaged: {_reason(error)}"
        ) from None


def load_identity(made: ssl.SSLContext, identity: Identity, config: Client) -> None:
    """Python reads a key only from a file. It gets one in memory, with the key under a password that nobody knows."""
    password = secrets.token_urlsafe(32)
    key = identity.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    text = key + "".join(map(ssl.DER_cert_to_PEM_cert, identity.chain)).encode()
    try:
        with _hidden(text) as path:
            made.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        what = (
            "the private key does not belong to the first certificate: the key's own certificate must come first"
            if error.reason == "KEY_VALUES_MISMATCH"
            else f"its certificate cannot be used: {_reason(error)}"
        )
        raise LockedError(f"{keystores.key_place(config)}: {what}") from None


@contextlib.contextmanager
def _hidden(content: bytes) -> Iterator[str]:
    """A path under which only this process finds these bytes, for the time being."""
    fd, path, temporary = -1, "", ""
    try:
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("twinlog")
            path = f"/proc/self/fd/{fd}"
        if not path or not Path(path).exists():
            if fd >= 0:
                os.close(fd)
            fd, temporary = tempfile.mkstemp()  # readable by this user alone
            path = temporary
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(content)
        yield path
    finally:
        if temporary:
            Path(temporary).unlink()
        if fd >= 0:
            os.close(fd)


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else "it cannot be read"
