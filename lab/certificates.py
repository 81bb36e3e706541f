"""A cluster's certificate authority: issues server certificates and client certificates by user name.

Keys and certificates are written as PEM (brokers, librdkafka, Python) and as PKCS12 (Java clients).
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PASSWORD = "lab-secret"
_DAYS = 90
_LOOPBACK = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one identity. `pem` contains key and certificate, as brokers expect them in one file."""

    pem: Path
    key: Path
    certificate: Path
    keystore: Path


class Authority:
    """Issues certificates on first use; `folder` contains all of them, and `ca.pem` and `truststore.p12`."""

    def __init__(self, folder: Path, name: str = "lab") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())  # much faster to generate than RSA
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} CA")])
        self._certificate = (
            _builder(self._name, self._name, self._key.public_key(), _DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self._certificate.public_bytes(Encoding.PEM))
        self.truststore = folder / "truststore.p12"
        # Java trusts a certificate in a PKCS12 file only if it has Oracle's trust attribute, which this call adds.
        self.truststore.write_bytes(
            pkcs12.serialize_java_truststore(
                [pkcs12.PKCS12Certificate(self._certificate, b"ca")], BestAvailableEncryption(PASSWORD.encode())
            )
        )

    def server(self, names: Sequence[str] = _LOOPBACK, days: int = _DAYS) -> Files:
        """For all brokers on this machine. Other names, or negative days, give certificates that clients reject."""
        is_default = (*names, days) == (*_LOOPBACK, _DAYS)
        stem = "server-broker" if is_default else f"server-broker-{'-'.join(names)}-{days}"
        alternatives = x509.SubjectAlternativeName([_name(each) for each in names])
        return self._identity("broker", stem, ExtendedKeyUsageOID.SERVER_AUTH, alternatives, days)

    def client(self, user: str) -> Files:
        return self._identity(user, f"client-{user}", ExtendedKeyUsageOID.CLIENT_AUTH, None, _DAYS)

    def _identity(
        self,
        name: str,
        file: str,
        purpose: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
        days: int,
    ) -> Files:
        stem = self._folder / file
        files = Files(*(stem.with_name(f"{stem.name}{end}") for end in (".pem", ".key.pem", ".crt.pem", ".p12")))
        if files.keystore.exists():
            return files
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), self._name, key.public_key(), days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if names:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        certificate_pem = certificate.public_bytes(Encoding.PEM)
        files.key.write_bytes(key_pem)
        files.certificate.write_bytes(certificate_pem)
        files.pem.write_bytes(key_pem + certificate_pem + self._certificate.public_bytes(Encoding.PEM))
        files.keystore.write_bytes(
            pkcs12.serialize_key_and_certificates(
                name.encode(), key, certificate, [self._certificate], BestAvailableEncryption(PASSWORD.encode())
            )
        )
        return files


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    end = now + dt.timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, end) - dt.timedelta(days=1))  # clocks differ
        .not_valid_after(end)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
