"""Test certificates, keytool, a configurable TLS server, and handshakes by Java."""

import datetime as dt
import functools
import ipaddress
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID
from py4j.protocol import Py4JJavaError

from lab.kafka_classes import KafkaJvm
from twinlog import java
from twinlog.config.flows import Client
from twinlog.config.values import FrozenMap, Origin, Value
from twinlog.security import keystores
from twinlog.security.keystores import Identity

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey

PASSWORD = "store-pass-ä"
KEY_PASSWORD = "key-pass-ß"
ASCII = "store-pass"  # keytool takes a password from its command line, in the system's encoding


def client(properties: Mapping[str, str]) -> Client:
    """As it comes from mm2.properties with `us.` in front."""
    origins = {key: Origin("file", "mm2.properties", 1, f"us.{key}") for key in properties}
    return Client("admin", FrozenMap({key: Value(key, text, origins[key]) for key, text in properties.items()}))


@dataclass(frozen=True)
class Issued:
    certificate: x509.Certificate
    key: Key

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def pkcs8(self) -> bytes:
        return self.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())

    def key_pem(self, password: str = "", kind: PrivateFormat = PrivateFormat.PKCS8) -> str:
        lock = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, kind, lock).decode()


def issue(
    name: str,
    issuer: Issued | None = None,
    *,
    authority: bool = False,
    days: tuple[int, int] = (-1, 30),
    names: Sequence[str] = (),
    key: Key | None = None,
    purposes: Sequence[x509.ObjectIdentifier] = (),
) -> Issued:
    """A bare certificate, like those of home-made authorities: no key usage, no key identifiers."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + dt.timedelta(days=days[0]))
        .not_valid_after(now + dt.timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_general(each) for each in names]), critical=False)
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    return Issued(builder.sign(issuer.key if issuer else key, hashes.SHA256()), key)


TRUST = "ssl.truststore."
KEYS = "ssl.keystore."


def trusted(**settings: str) -> set[bytes] | None:
    config = client({TRUST + key: text for key, text in settings.items()})
    found = keystores.trusted(config, keystores.read_files(config))
    return None if found is None else set(found)


def identities(key_password: str | None = None, **settings: str) -> tuple[Identity, ...]:
    own = {} if key_password is None else {"ssl.key.password": key_password}
    config = client({KEYS + key: text for key, text in settings.items()} | own)
    return keystores.identities(config, keystores.read_files(config))


def opened(found: tuple[Identity, ...]) -> list[tuple[bytes, tuple[bytes, ...]]]:
    return [(each.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()), each.chain) for each in found]


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def keytool(*words: str) -> None:
    tool = java.find().home / "bin" / "keytool"
    subprocess.run([tool, "-J-XX:TieredStopAtLevel=1", *words], check=True, capture_output=True, timeout=120)


def server_context(folder: Path, *chain: Issued, password: str = "") -> ssl.SSLContext:
    """A server with the first one's key, which shows all of these."""
    file = folder / f"server-{chain[0].certificate.serial_number}.pem"
    file.write_text(chain[0].key_pem(password) + "".join(each.pem for each in chain))
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.set_ciphers("DEFAULT:@SECLEVEL=0")
    made.load_cert_chain(file, password=password or None)
    return made


@contextmanager
def serving(context: ssl.SSLContext | None, first: bytes = b"hello") -> Iterator[int]:
    """The port of a server that sends `first` on every connection, with TLS if there is a context."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, context, first), daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def _serve(listener: socket.socket, context: ssl.SSLContext | None, first: bytes) -> None:
    while True:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        with sock:
            sock.settimeout(5)
            try:
                if context is None:
                    sock.recv(1)
                    sock.sendall(first)
                    continue
                with context.wrap_socket(sock, server_side=True) as secured:
                    secured.sendall(first)
                    secured.recv(1)
            except OSError:
                continue


class JavaClient:
    """Kafka's own SslEngineFactory: whether it accepts settings, and whether its handshake succeeds."""

    def __init__(self, kafka: KafkaJvm) -> None:
        self._kafka = kafka
        self.jvm = kafka.jvm

    def refusal(self, properties: Mapping[str, str]) -> str | None:
        """Why Kafka rejects these settings; None if it accepts them."""
        try:
            self._factory(properties)
        except Py4JJavaError as error:
            return reasons(error)
        return None

    def handshake(self, properties: Mapping[str, str], server: ssl.SSLContext, host: str = "localhost") -> str | None:
        """Why Java's handshake with this server fails; None if it succeeds. In memory, without a network."""
        try:
            return self._handshake(properties, server, host)
        except Py4JJavaError as error:
            return reasons(error)

    def _factory(self, properties: Mapping[str, str]) -> tuple[Any, Any]:
        settings = self._kafka.map({"bootstrap.servers": "localhost:1", **properties})
        config = self.jvm.org.apache.kafka.clients.admin.AdminClientConfig(settings)
        factory = self.jvm.org.apache.kafka.common.security.ssl.DefaultSslEngineFactory()
        factory.configure(config.values())
        return config, factory

    def _handshake(self, properties: Mapping[str, str], server: ssl.SSLContext, host: str) -> str | None:
        config, factory = self._factory(properties)
        check = config.getString("ssl.endpoint.identification.algorithm")
        engine = factory.createClientSslEngine(host, 1, check)
        engine.beginHandshake()
        buffer = functools.partial(self.jvm.java.nio.ByteBuffer.allocate, 65536)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        peer = server.wrap_bio(incoming, outgoing, server_side=True)
        unread = b""
        for _ in range(100):
            match engine.getHandshakeStatus().toString():
                case "NEED_WRAP":
                    out = buffer()
                    engine.wrap(self.jvm.java.nio.ByteBuffer.allocate(0), out)
                    incoming.write(bytes(out.array())[: out.position()])
                case "NEED_TASK":
                    engine.getDelegatedTask().run()
                case "NEED_UNWRAP" | "NEED_UNWRAP_AGAIN":
                    refused = _step(peer)
                    unread += outgoing.read()
                    if refused and not unread:
                        return refused
                    data = self.jvm.java.nio.ByteBuffer.wrap(unread)
                    engine.unwrap(data, buffer())
                    unread = unread[data.position() :]
                case _:
                    return None
        return "endless handshake"


def _step(peer: ssl.SSLObject) -> str | None:
    try:
        peer.do_handshake()
    except ssl.SSLWantReadError:
        return None
    except ssl.SSLError as error:
        return str(error)
    return None


def characters(kafka: KafkaJvm, text: str) -> Any:
    """A `char[]`; a Java String becomes a Python one before it can give its characters."""
    writer = kafka.jvm.java.io.CharArrayWriter()
    writer.write(text)
    return writer.toCharArray()


def reasons(error: Py4JJavaError) -> str:
    found, cause = [], error.java_exception
    while cause is not None:
        found.append(str(cause.toString()))
        cause = cause.getCause()
    return "; ".join(found)
