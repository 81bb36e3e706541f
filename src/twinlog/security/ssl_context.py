"""Creates an SSLContext from a client's `ssl.*` settings that accepts and rejects what Java would.

Differences:
* Java ignores the validity dates of a trusted certificate; OpenSSL rejects an expired one in the truststore.
* Java accepts SHA-1 signatures of private CAs; OpenSSL does not. Both accept RSA keys of 1024 bits.
* Before Python 3.15 the suites of TLS 1.3 cannot be selected: `handshake` rejects a suite that is not listed.
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
from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security import ciphers, keystores
from twinlog.security.keystores import Files, Identity, written

PROTOCOLS: Final = "ssl.enabled.protocols"
PROTOCOL: Final = "ssl.protocol"
SUITES: Final = "ssl.cipher.suites"
IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD: Final = ("TLSv1.1", "TLSv1", "SSLv3", "SSLv2Hello")  # known to Java, but disabled
_CAPS: Final = {"TLS": "TLSv1.3", "SSL": "TLSv1.3", "TLSV1.3": "TLSv1.3", "TLSV1.2": "TLSv1.2"}
# Level 1 requires 80 bits of security: RSA keys from 1024 bits, as in Java. Level 2, the usual default, requires 2048.
_LEVEL: Final = ":@SECLEVEL=1"
# An OpenSSL built for another system does not find the CAs of this one by its default paths.
_SYSTEM: Final = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_NO_PARTIAL_WILDCARDS: Final = 0x4  # OpenSSL's X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS
_MAX_CONTEXTS: Final = 64  # in the cache

_SETTINGS: Final = tuple(key for key in CONNECTION_KEYS if key.startswith("ssl."))
_log = logging.getLogger(__name__)


def context(config: Client) -> ssl.SSLContext:
    """The context of these settings, shared by all threads: do not modify it.

    Call this for every connection, so that changed files are used at once. If a file is currently unreadable, the
    previous context is returned.
    """
    return _CONTEXTS.get(config)


@dataclass(slots=True)
class _Cached:
    context: ssl.SSLContext
    digest: str
    failed: str = ""  # the digest of files that could not be used
    warned: bool = False


class Contexts:
    """A cache by settings and file contents (not modification times, which a fast rotation may leave unchanged)."""

    def __init__(self) -> None:
        self._cached: dict[tuple[str | None, ...], _Cached] = {}
        self._lock = threading.Lock()

    def get(self, config: Client) -> ssl.SSLContext:
        key = tuple(config.values[name].text if name in config.values else None for name in _SETTINGS)
        with self._lock:
            cached = self._cached.get(key)
            digest = ""
            try:
                files = keystores.read_files(config)
                digest = hashlib.sha256(b"".join(hashlib.sha256(data).digest() for data in files.values())).hexdigest()
                if cached is not None and digest in (cached.digest, cached.failed):
                    cached.warned = cached.warned and digest == cached.failed
                    return cached.context
                built = build(config, files)
            except AuthenticationError as error:
                if cached is None:
                    raise
                cached.failed = digest
                if not cached.warned:
                    cached.warned = True
                    _log.warning("%s (the previous certificates stay in use)", error)
                return cached.context
            if len(self._cached) >= _MAX_CONTEXTS:
                self._cached.clear()
            self._cached[key] = _Cached(built, digest)
            return built


_CONTEXTS: Final = Contexts()


def build(config: Client, files: Files) -> ssl.SSLContext:
    """ConfigError: the settings contradict each other. AuthenticationError: a file cannot be used."""
    suites = _suites(config)
    versions = _versions(config, suites)
    built = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # not create_default_context, which is stricter since Python 3.13
    built.minimum_version, built.maximum_version = _VERSIONS[versions[0]], _VERSIONS[versions[-1]]
    built.set_ciphers((":".join(suites.older) if suites and suites.older else "DEFAULT") + _LEVEL)
    if suites and suites.modern and (set_suites := getattr(built, "set_ciphersuites", None)):
        set_suites(":".join(suites.modern))
    built.options |= ssl.OP_NO_RENEGOTIATION  # brokers do not use it
    built.check_hostname = _checks_host_name(config)
    built.verify_mode = ssl.CERT_REQUIRED
    # As in Java, a trusted certificate need not be a root: it may be an intermediate one or the broker's own.
    built.verify_flags = ssl.VERIFY_X509_TRUSTED_FIRST | ssl.VERIFY_X509_PARTIAL_CHAIN
    _match_names_like_java(built)
    _load_trusted(built, config, files)
    for identity in keystores.identities(config, files):
        load_identity(built, identity, config)
    return built


def allowed_suites(config: Client) -> tuple[str, ...]:
    """Those of TLS 1.3; empty if all are allowed."""
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
            f"{written(config, SUITES)} = {','.join(config[SUITES])}: none of these is supported",
            "add one such as TLS_AES_256_GCM_SHA384",
        )
    return suites


def _versions(config: Client, suites: ciphers.Suites | None) -> list[str]:
    """The enabled versions, oldest first: OpenSSL takes a range."""
    cap = _CAPS.get(config[PROTOCOL].upper())  # Java ignores case here
    if cap is None:
        raise ConfigError(
            f"{written(config, PROTOCOL)} = {config[PROTOCOL]}: not a supported TLS version", "use TLSv1.3 or TLSv1.2"
        )
    for name in config[PROTOCOLS]:
        if name not in _VERSIONS and name not in _OLD:
            raise ConfigError(f"{written(config, PROTOCOLS)} = {name}: unknown TLS version", "use TLSv1.2,TLSv1.3")
    enabled = config[PROTOCOLS] or tuple(_VERSIONS)
    found = [name for name in _VERSIONS if name in enabled]
    if not found:
        raise ConfigError(
            f"{written(config, PROTOCOLS)} = {','.join(enabled)}: too old and disabled, as in Java",
            "set TLSv1.2,TLSv1.3",
        )
    found = [name for name in found if name <= cap]
    if not found:
        raise ConfigError(
            f"{written(config, PROTOCOLS)} = {','.join(enabled)}: newer than {PROTOCOL} = {config[PROTOCOL]} allows",
            f"set {PROTOCOL} = TLSv1.3",
        )
    if suites is not None:
        found = [name for name in found if (suites.modern if name == "TLSv1.3" else suites.older)]
    if not found:
        raise ConfigError(
            f"{written(config, SUITES)} = {','.join(config[SUITES])}: none of these is for {PROTOCOLS} = "
            f"{','.join(enabled)}",
            "add suites of that version, such as TLS_AES_256_GCM_SHA384 for TLSv1.3",
        )
    return found


def _checks_host_name(config: Client) -> bool:
    algorithm = config[IDENTIFICATION].lower()
    if algorithm not in ("https", "ldaps", ""):  # Java ignores case; both check the same names
        raise ConfigError(
            f"{written(config, IDENTIFICATION)} = {config[IDENTIFICATION]}: not supported",
            "use https, or leave it empty to accept a certificate for any name",
        )
    return bool(algorithm)


def _match_names_like_java(context: ssl.SSLContext) -> None:
    # As in Java, the common name counts if the certificate has no alternative name of type DNS.
    context.hostname_checks_common_name = True
    # Java accepts `kafka*.example.com`. Python rejects it by a flag without a public name.
    if hasattr(context, "_host_flags"):
        context._host_flags &= ~_NO_PARTIAL_WILDCARDS  # noqa: SLF001


def _load_trusted(context: ssl.SSLContext, config: Client, files: Files) -> None:
    certificates = keystores.trusted(config, files)
    if certificates is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        known = ssl.get_default_verify_paths()
        if not (known.cafile or known.capath):
            for path in filter(os.path.exists, _SYSTEM):
                context.load_verify_locations(path)
        return
    try:
        context.load_verify_locations(cadata=b"".join(certificates))
    except (ssl.SSLError, ValueError) as error:
        raise AuthenticationError(
            f"{keystores.trust_place(config)}: damaged certificate ({_reason(error)})", "replace it"
        ) from None


def load_identity(context: ssl.SSLContext, identity: Identity, config: Client) -> None:
    """Python loads a key only from a file: an in-memory one, with the key encrypted by a random password."""
    password = secrets.token_urlsafe(32)
    key = identity.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    text = key + "".join(map(ssl.DER_cert_to_PEM_cert, identity.chain)).encode()
    try:
        with _private_file(text) as path:
            context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        what, advice = f"unusable certificate ({_reason(error)})", "replace it"
        if error.reason == "KEY_VALUES_MISMATCH":
            what, advice = "private key does not match the first certificate", "put the key's own certificate first"
        raise AuthenticationError(f"{keystores.key_place(config)}: {what}", advice) from None


@contextlib.contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    """The path of a temporary file that only this process (or at least only this user) can read."""
    fd, path, temporary = -1, "", ""
    try:
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("twinlog")
            path = f"/proc/self/fd/{fd}"
        if not path or not Path(path).exists():
            if fd >= 0:
                os.close(fd)
            fd, temporary = tempfile.mkstemp()  # readable by this user only
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
    return str(reason).replace("_", " ").lower() if reason else "unreadable"
