"""Authentication errors: one line with the cluster, the address, the cause and the remedy, without secrets."""

import subprocess
from pathlib import Path

import pytest

from lab.certificates import PASSWORD, Authority
from lab.cluster import Cluster
from lab.listeners import MUTUAL_TLS, OAUTH, PLAINTEXT, SASL_PLAIN, SASL_PLAIN_TLS, SCRAM_512, TLS, Listener
from tests.runtime.conftest import INSIDES, TWINLOG
from twinlog.config.properties import properties_text

pytestmark = pytest.mark.broker

GUESSED = "guessed-3x7"


def refused(folder: Path, cluster: Cluster, properties: dict[str, str]) -> str:
    """The last line of `twinlog run` if one cluster is configured with these properties."""
    lines = {"clusters": "us, eu", "us->eu.enabled": "true", "eu.bootstrap.servers": cluster.bootstrap(PLAINTEXT)}
    file = folder / "mm2.properties"
    file.write_text(properties_text(lines | {f"us.{key}": text for key, text in properties.items()}))
    done = subprocess.run([TWINLOG, "run", file], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in {1, 2}, done.stderr
    assert not done.stdout
    output = done.stderr
    assert not [word for word in INSIDES if word in output.replace("org.apache.kafka.common.security", "")], output
    assert not [secret for secret in (GUESSED, PASSWORD, "alice-secret") if secret in output], output
    *warnings, last = output.splitlines()
    assert all("warning" in line or line.endswith("us->eu: 2 tasks") for line in warnings), output
    return last


def address(cluster: Cluster, listener: Listener) -> str:
    return cluster.bootstrap(listener)


@pytest.mark.parametrize(
    ("listener", "words"),
    [
        (SASL_PLAIN, "PLAIN: authentication failed for user 'alice'"),
        (SCRAM_512, "SCRAM-SHA-512: authentication failed for user 'alice'"),
        (OAUTH, "401"),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_wrong_password(secure: Cluster, tmp_path: Path, listener: Listener, words: str) -> None:
    properties = secure.client_properties(listener, "alice")
    properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace("alice-secret", GUESSED)
    output = refused(tmp_path, secure, properties)
    assert output.startswith(f"twinlog: cluster us: {address(secure, listener)}: ")
    assert words in output
    assert "check" in output


@pytest.mark.parametrize(
    ("listener", "client", "words"),
    [
        (TLS, PLAINTEXT, "the listener uses TLS; set security.protocol to SSL or SASL_SSL"),
        (PLAINTEXT, TLS, "check that the listener uses TLS (us.security.protocol = SSL)"),
        (SASL_PLAIN, PLAINTEXT, "check whether the listener needs SASL (security.protocol = SASL_...)"),
        (PLAINTEXT, SASL_PLAIN, "this listener does not use SASL; set us.security.protocol to PLAINTEXT"),
        (SCRAM_512, SASL_PLAIN, "us.sasl.mechanism = PLAIN is not enabled on this listener (enabled: SCRAM-SHA-512)"),
        (MUTUAL_TLS, TLS, "broker requires a client certificate; set ssl.keystore.location"),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_wrong_protocol(secure: Cluster, tmp_path: Path, listener: Listener, client: Listener, words: str) -> None:
    properties = secure.client_properties(client, "alice") | {"bootstrap.servers": address(secure, listener)}
    output = refused(tmp_path, secure, properties)
    assert "cluster us" in output
    assert address(secure, listener) in output
    assert words in output


def test_an_untrusted_certificate(secure: Cluster, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", "other")
    properties = secure.client_properties(TLS) | {"ssl.truststore.location": str(other.truststore)}
    output = refused(tmp_path, secure, properties)
    assert "is not trusted; add its CA to us.ssl.truststore.location = " in output
    properties = secure.client_properties(MUTUAL_TLS, "alice")
    properties["ssl.keystore.location"] = str(other.client("alice").keystore)
    output = refused(tmp_path, secure, properties)
    assert "broker rejected the client certificate of us.ssl.keystore.location = " in output


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ssl.truststore.password": GUESSED}, "us.ssl.truststore.location = "),
        ({"ssl.truststore.location": "/nowhere/trust.p12"}, "us.ssl.truststore.location = /nowhere/trust.p12"),
        ({"sasl.jaas.config": "org.apache.Nonsense required;"}, "sasl.jaas.config"),
        ({"sasl.mechanism": "DIGEST-MD5"}, "sasl.mechanism = DIGEST-MD5: not supported; use one of PLAIN"),
    ],
)
def test_settings_that_cannot_work(secure: Cluster, tmp_path: Path, change: dict[str, str], words: str) -> None:
    output = refused(tmp_path, secure, secure.client_properties(SASL_PLAIN_TLS, "alice") | change)
    assert output.startswith("twinlog: cluster us: ")
    assert words in output
