"""TLS handshakes with brokers, with error messages that state the cause and what to check."""

import contextlib
import datetime as dt
import ipaddress
import socket
import ssl
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.x509.oid import NameOID

from twinlog.config.flows import Client
from twinlog.errors import AuthenticationError, TwinlogError
from twinlog.security import keystores, ssl_context
from twinlog.security.keystores import written

_PEER_TIMEOUT: Final = 3.0  # seconds, to read the broker's certificate for a message
_MAX_NAMES: Final = 8

# OpenSSL's certificate verification errors
_EXPIRED, _TOO_EARLY = (10, 12, 16), (9, 11)
_UNKNOWN_ISSUER: Final = (2, 18, 19, 20, 21, 27)
_OTHER_NAME: Final = (62, 64)
_WRONG_PURPOSE: Final = (26,)
_WEAK: Final = (66, 67, 68)

# Alerts about the client certificate. Most brokers send "bad" or "unknown" for any reason.
_REJECTED: Final = ("BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "UNKNOWN_CA", "UNSUPPORTED_CERTIFICATE", "DECRYPT_ERROR",
                   "CERTIFICATE_REVOKED", "CERTIFICATE_EXPIRED", "ACCESS_DENIED")  # fmt: skip
_NO_COMMON: Final = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE", "NO_SHARED_CIPHER",
                     "INSUFFICIENT_SECURITY", "NO_CIPHERS_AVAILABLE")  # fmt: skip
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE",
                  "UNKNOWN_PROTOCOL", "BAD_RECORD_TYPE", "HTTPS_PROXY_REQUEST")  # fmt: skip


def handshake(sock: socket.socket, config: Client, host: str, port: int) -> ssl.SSLSocket:
    """The same connection with TLS, and with the timeout of `sock`.

    AuthenticationError, or ConfigError for settings that contradict each other; `sock` is then closed.
    """
    try:
        context = ssl_context.context(config)
        secured = context.wrap_socket(sock, server_hostname=_certified_name(host))
    except TwinlogError:  # of the settings and their files
        sock.close()
        raise
    except (OSError, ValueError) as error:  # ValueError: not a host name
        sock.close()
        raise explain(error, host, port, config) from error
    cipher = secured.cipher()
    allowed = ssl_context.allowed_suites(config)
    if cipher and cipher[1] == "TLSv1.3" and allowed and cipher[0] not in allowed:
        secured.close()
        raise AuthenticationError(
            f"broker chose {cipher[0]}, which {written(config, ssl_context.SUITES)} does not list",
            f"add it, or set {ssl_context.PROTOCOLS} = TLSv1.2",
            address=f"{host}:{port}",
        )
    return secured


class _Cause(NamedTuple):
    problem: str
    advice: str
    retriable: bool = False


def explain(error: Exception, host: str, port: int, config: Client) -> AuthenticationError:
    """The cause of a failed handshake, or of a failed first read after one.

    With TLS 1.3 a broker rejects the client certificate only after the handshake, so the alert arrives with the first
    read. If it helps, reads the broker's certificate over another connection.
    """
    cause = _cause(error, host, port, config)
    return AuthenticationError(cause.problem, cause.advice, address=f"{host}:{port}", retriable=cause.retriable)


def _cause(error: Exception, host: str, port: int, config: Client) -> _Cause:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _certificate_error(error, host, port, config)
    reason = (getattr(error, "reason", None) or "") if isinstance(error, ssl.SSLError) else ""
    if reason.endswith(_NO_TLS):
        what = "TLS handshake failed: the listener does not use TLS"
        return _Cause(what, f"check {_protocol(config)} and the port")
    if "ALERT" in reason or reason.endswith(_NO_COMMON):
        return _alert_error(reason, config)
    if isinstance(error, TimeoutError):
        advice = f"check that the listener uses TLS ({_protocol(config)})"
        return _Cause("TLS handshake timed out", advice, retriable=True)
    if isinstance(error, ValueError) and not isinstance(error, OSError):
        return _Cause("not a valid host name", "check the address")
    if reason and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return _Cause(f"TLS handshake failed: {_readable(reason)}", "check the broker's log", retriable=True)
    # A listener without TLS takes the first bytes for the size of a request, 369 MB, and closes the connection.
    return _Cause(
        "connection closed during the TLS handshake",
        f"check that the listener uses TLS ({_protocol(config)}) and whether it requires "
        f"{'another' if keystores.key_place(config) else 'a'} client certificate",
        retriable=True,
    )


def _certificate_error(error: ssl.SSLCertVerificationError, host: str, port: int, config: Client) -> _Cause:
    code = error.verify_code
    place = keystores.trust_place(config)
    seen = peer_certificate(host, port)
    if code in _EXPIRED:
        return _expired(seen, config)
    if code in _TOO_EARLY:
        since = f" before {_time(seen.not_valid_before_utc)}" if seen else " yet"
        advice = "check the clocks of the broker and this machine"
        return _Cause(f"broker certificate is not valid{since}", advice, retriable=True)
    if code in _OTHER_NAME:
        names = f"is for {_names(seen)}" if seen else "is for other names"
        return _Cause(
            f"broker certificate {names}, not for {host}",
            f"address the broker by one of its names, or leave {written(config, ssl_context.IDENTIFICATION)} empty to "
            "accept any name",
        )
    if code in _WRONG_PURPOSE:
        return _Cause("broker certificate lacks the extended key usage serverAuth", "have it issued for servers")
    if code in _WEAK:
        return _Cause(f"broker certificate is too weak: {error.verify_message}", "have it reissued")
    if code in _UNKNOWN_ISSUER:
        issuer = f" issued by {seen.issuer.rfc4514_string()!r}" if seen else ""
        if place:
            return _Cause(f"broker certificate{issuer} is not trusted", f"add its CA to {place}")
        return _Cause(
            f"broker certificate{issuer} is not trusted by this system",
            f"set {keystores.TRUSTSTORE} to a truststore with its CA",
        )
    return _Cause(f"broker certificate rejected: {error.verify_message}", f"check it and {place or 'its chain'}")


def _expired(seen: x509.Certificate | None, config: Client) -> _Cause:
    now = dt.datetime.now(dt.UTC)
    if seen is None or seen.not_valid_after_utc < now:
        until = f" on {_time(seen.not_valid_after_utc)}" if seen else ""
        advice = "renew it on the broker, or check this machine's clock"
        return _Cause(f"broker certificate expired{until}", advice, retriable=True)
    for der in _anchors(config):
        with contextlib.suppress(ValueError):
            anchor = x509.load_der_x509_certificate(der)
            if anchor.not_valid_after_utc < now and anchor.subject == seen.issuer:
                return _Cause(
                    f"CA certificate {anchor.subject.rfc4514_string()!r} expired on "
                    f"{_time(anchor.not_valid_after_utc)}",
                    f"renew it in {keystores.trust_place(config)}",
                    retriable=True,
                )
    what = "a CA certificate in the broker's chain expired"
    return _Cause(what, "renew the chain on the broker", retriable=True)


def _anchors(config: Client) -> tuple[bytes, ...]:
    try:
        return keystores.trusted(config, keystores.read_files(config)) or ()
    except AuthenticationError:
        return ()


def _alert_error(reason: str, config: Client) -> _Cause:
    place = keystores.key_place(config)
    if reason.endswith("CERTIFICATE_REQUIRED") or (reason.endswith("BAD_CERTIFICATE") and not place):
        if place:
            what = "broker requires a client certificate, none was sent"
            return _Cause(what, f"check that {place} contains a private key")
        return _Cause("broker requires a client certificate", f"set {keystores.KEYSTORE}")
    if reason.endswith(_REJECTED):
        alert = _readable(reason)
        if place:
            return _Cause(
                f"broker rejected the client certificate of {place}: {alert}",
                "check its validity dates and that its CA is in the broker's truststore",
                retriable=reason.endswith("EXPIRED"),  # the next attempt reads a renewed certificate
            )
        return _Cause(
            f"broker rejected the connection: {alert}",
            f"check whether it requires a client certificate ({keystores.KEYSTORE})",
        )
    if reason.endswith(_NO_COMMON):
        return _Cause(
            "no TLS version or cipher suite in common with the broker",
            f"check {ssl_context.PROTOCOLS} and {ssl_context.SUITES}",
        )
    if reason.endswith("HANDSHAKE_FAILURE"):
        certificate = "" if place else f", and whether it requires a client certificate ({keystores.KEYSTORE})"
        return _Cause(
            "TLS handshake rejected by the broker",
            f"check {ssl_context.PROTOCOLS}, {ssl_context.SUITES}{certificate}",
        )
    if reason.endswith("UNRECOGNIZED_NAME"):
        return _Cause("broker does not serve this host name", "check the address")
    return _Cause(f"broker rejected the connection: {_readable(reason)}", "check the broker's log", retriable=True)


def peer_certificate(host: str, port: int) -> x509.Certificate | None:
    """The broker's certificate, unverified, for messages only. None if it cannot be read."""
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    unverified.set_ciphers("DEFAULT:@SECLEVEL=0")
    try:
        with (
            socket.create_connection((host, port), _PEER_TIMEOUT) as sock,
            unverified.wrap_socket(sock, server_hostname=_certified_name(host)) as secured,
        ):
            der = secured.getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(der) if der else None
    except (OSError, ValueError):
        return None


def _certified_name(host: str) -> str:
    """The host without a trailing dot or an IPv6 zone, which certificates do not have. ValueError: not a host name.

    Checked here because Python leaks the socket if wrap_socket raises for it.
    """
    name = host.partition("%")[0].rstrip(".")
    if not name or name.startswith(".") or "\0" in name:
        raise ValueError(host)
    name.encode("idna")
    return name


def _names(certificate: x509.Certificate) -> str:
    """The names that are matched: the alternative names, or else the common name."""
    found: list[str] = []
    with contextlib.suppress(x509.ExtensionNotFound, ValueError):
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found += [str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress)]
    if not any(not _is_address(name) for name in found):
        found += [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    more = f" and {len(found) - _MAX_NAMES} more" if len(found) > _MAX_NAMES else ""
    return ", ".join(ascii(name)[1:-1] for name in found[:_MAX_NAMES]) + more or "no name"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _protocol(config: Client) -> str:
    return f"{written(config, 'security.protocol')} = {config['security.protocol']}"


def _readable(reason: str) -> str:
    return reason.replace("_", " ").lower()


def _time(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
