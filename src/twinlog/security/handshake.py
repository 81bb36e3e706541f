"""Locks a connection by TLS, or says in one sentence why that cannot be done, and what to look at."""

import contextlib
import datetime as dt
import ipaddress
import socket
import ssl
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from twinlog.config.flows import Client
from twinlog.errors import LockedError, TwinlogError
from twinlog.security import keystores, tls
from twinlog.security.keystores import written

_PATIENCE: Final = 3.0  # seconds, for a second look at the broker's certificate
_MOST_NAMES: Final = 8

# OpenSSL's codes of why a certificate was refused.
_EXPIRED, _TOO_EARLY = (10, 12, 16), (9, 11)
_UNKNOWN_ISSUER: Final = (2, 18, 19, 20, 21, 27)
_OTHER_NAME: Final = (62, 64)
_WRONG_PURPOSE: Final = (26,)
_WEAK: Final = (66, 67, 68)

# What a broker says of our certificate. Most say "bad" or "unknown" whatever the reason is.
_REFUSED: Final = ("BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "UNKNOWN_CA", "UNSUPPORTED_CERTIFICATE", "DECRYPT_ERROR",
                   "CERTIFICATE_REVOKED", "CERTIFICATE_EXPIRED", "ACCESS_DENIED")  # fmt: skip
_NO_COMMON: Final = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE", "NO_SHARED_CIPHER",
                     "INSUFFICIENT_SECURITY", "NO_CIPHERS_AVAILABLE")  # fmt: skip
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE",
                  "UNKNOWN_PROTOCOL", "BAD_RECORD_TYPE", "HTTPS_PROXY_REQUEST")  # fmt: skip


def handshake(sock: socket.socket, config: Client, host: str, port: int) -> ssl.SSLSocket:
    """The same connection, locked, with the timeout that `sock` has.

    LockedError, or ConfigError for settings that contradict each other: then `sock` is closed.
    """
    try:
        made = tls.context(config)
        locked = made.wrap_socket(sock, server_hostname=_certified_name(host))
    except TwinlogError:  # of the settings and their files
        sock.close()
        raise
    except (OSError, ValueError) as error:  # ValueError: a host name that cannot be one
        sock.close()
        raise explain(error, host, port, config) from error
    cipher = locked.cipher()
    allowed = tls.allowed_suites(config)
    if cipher and cipher[1] == "TLSv1.3" and allowed and cipher[0] not in allowed:
        locked.close()
        raise LockedError(
            f"{host}:{port}: the broker chose {cipher[0]}, which {written(config, tls.SUITES)} does not list: add it, "
            f"or set {tls.PROTOCOLS} = TLSv1.2"
        )
    return locked


def explain(error: Exception, host: str, port: int, config: Client) -> LockedError:
    """What a failed handshake, or a failed first read after one, means.

    With TLS 1.3 a broker refuses our certificate only after the handshake, so that the first read brings the alert.
    Looks at the broker's certificate over a connection of its own where that helps.
    """
    what, heals = _explained(error, host, port, config)
    return LockedError(f"{host}:{port}: {what}", heals=heals)


def _explained(error: Exception, host: str, port: int, config: Client) -> tuple[str, bool]:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _mistrusted(error, host, port, config)
    reason = (getattr(error, "reason", None) or "") if isinstance(error, ssl.SSLError) else ""
    if reason.endswith(_NO_TLS):
        return f"the listener does not speak TLS: check {_protocol(config)}, and the port", False
    if "ALERT" in reason or reason.endswith(_NO_COMMON):
        return _alerted(reason, config)
    if isinstance(error, TimeoutError):
        return f"no answer to the TLS handshake in time: does the listener speak TLS ({_protocol(config)})?", True
    if isinstance(error, ValueError) and not isinstance(error, OSError):
        return "not a name that a certificate could have: check the address", False
    if reason and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return f"the TLS handshake failed: {_words(reason)}", True
    # A plain listener takes our first bytes for the size of a request, 369 MB, and hangs up.
    return (
        f"the broker closed the connection while TLS was set up: does the listener speak TLS ({_protocol(config)}), "
        f"and does it want {'another' if keystores.key_place(config) else 'a'} client certificate?"
    ), True


def _mistrusted(error: ssl.SSLCertVerificationError, host: str, port: int, config: Client) -> tuple[str, bool]:
    code = error.verify_code
    place = keystores.trust_place(config)
    seen = peer_certificate(host, port)
    if code in _EXPIRED:
        return _expired(seen, config), True
    if code in _TOO_EARLY:
        since = f" before {_time(seen.not_valid_before_utc)}" if seen else " yet"
        return f"the broker's certificate is not valid{since}: check the clocks of the broker and of this machine", True
    if code in _OTHER_NAME:
        names = f"is for {_names(seen)}" if seen else "is for other names"
        return (
            f"the broker's certificate {names}, not for {host}: address the broker by such a name, or leave "
            f"{written(config, tls.IDENTIFICATION)} empty if any name will do"
        ), False
    if code in _WRONG_PURPOSE:
        return "the broker's certificate is not meant for servers: it lacks the extended key usage serverAuth", False
    if code in _WEAK:
        return f"a certificate of the broker is too weak ({error.verify_message}): have it issued anew", False
    if code in _UNKNOWN_ISSUER:
        issuer = f", issued by {seen.issuer.rfc4514_string()!r}," if seen else ""
        if place:
            return f"the broker's certificate{issuer} is not trusted: add its authority to {place}", False
        return (
            f"the broker's certificate{issuer} is not trusted by this system: set {keystores.TRUSTSTORE} to a store "
            "that holds its authority"
        ), False
    return f"the broker's certificate is refused: {error.verify_message}: check it, and {place or 'the chain'}", False


def _expired(seen: x509.Certificate | None, config: Client) -> str:
    now = dt.datetime.now(dt.UTC)
    if seen is None or seen.not_valid_after_utc < now:
        until = f" on {_time(seen.not_valid_after_utc)}" if seen else ""
        return f"the broker's certificate has expired{until}: renew it on the broker, or check this machine's clock"
    for der in _anchors(config):
        with contextlib.suppress(ValueError):
            anchor = x509.load_der_x509_certificate(der)
            if anchor.not_valid_after_utc < now and anchor.subject == seen.issuer:
                return (
                    f"the authority {anchor.subject.rfc4514_string()!r} has expired on "
                    f"{_time(anchor.not_valid_after_utc)}: renew it in {keystores.trust_place(config)}"
                )
    return "an authority above the broker's certificate has expired: renew its chain on the broker"


def _anchors(config: Client) -> tuple[bytes, ...]:
    try:
        return keystores.trusted(config, keystores.read_files(config)) or ()
    except LockedError:
        return ()


def _alerted(reason: str, config: Client) -> tuple[str, bool]:
    place = keystores.key_place(config)
    if reason.endswith("CERTIFICATE_REQUIRED") or (reason.endswith("BAD_CERTIFICATE") and not place):
        if place:
            return f"the broker asks for a client certificate, and got none: is there a private key in {place}?", False
        return f"the broker asks for a client certificate: set {keystores.KEYSTORE}", False
    if reason.endswith(_REFUSED):
        alert = _words(reason)
        if place:
            # What was rotated shows at the next attempt.
            return (
                f"the broker refuses the client certificate of {place} ({alert}): check its dates, and that its "
                "authority is in the broker's truststore"
            ), reason.endswith("EXPIRED")
        return f"the broker refuses the connection ({alert}): does it ask for a client certificate?", False
    if reason.endswith(_NO_COMMON):
        return (
            f"no TLS version or cipher suite in common with the broker: check {tls.PROTOCOLS} and {tls.SUITES}"
        ), False
    if reason.endswith("HANDSHAKE_FAILURE"):
        wants = "" if place else f", and whether it wants a client certificate ({keystores.KEYSTORE})"
        return f"the broker finds no common ground: check {tls.PROTOCOLS}, {tls.SUITES}{wants}", False
    if reason.endswith("UNRECOGNIZED_NAME"):
        return "the broker does not know itself by this name: check the address", False
    return f"the broker refuses the connection: {_words(reason)}", True


def peer_certificate(host: str, port: int) -> x509.Certificate | None:
    """What the broker shows to anybody, not trusted for anything but a message. None if it cannot be had."""
    look = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    look.check_hostname = False
    look.verify_mode = ssl.CERT_NONE
    look.set_ciphers("DEFAULT:@SECLEVEL=0")
    try:
        with (
            socket.create_connection((host, port), _PATIENCE) as sock,
            look.wrap_socket(sock, server_hostname=_certified_name(host)) as locked,
        ):
            der = locked.getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(der) if der else None
    except (OSError, ValueError):
        return None


def _certified_name(host: str) -> str:
    """A name may end with a dot, an IPv6 address carry its interface: no certificate has either. ValueError: no name.

    Checked here, because Python leaks the socket when it finds out itself.
    """
    name = host.partition("%")[0].rstrip(".")
    if not name or name.startswith(".") or "\0" in name:
        raise ValueError(host)
    name.encode("idna")
    return name


def _names(certificate: x509.Certificate) -> str:
    """Those that count: alternative names, or else the common name."""
    found: list[str] = []
    with contextlib.suppress(x509.ExtensionNotFound, ValueError):
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found += [str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress)]
    if not any(not _is_address(name) for name in found):
        found += [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    more = f" and {len(found) - _MOST_NAMES} more" if len(found) > _MOST_NAMES else ""
    return ", ".join(ascii(name)[1:-1] for name in found[:_MOST_NAMES]) + more or "no name"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _protocol(config: Client) -> str:
    return f"{written(config, 'security.protocol')} = {config['security.protocol']}"


def _words(reason: str) -> str:
    return reason.replace("_", " ").lower()


def _time(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
