"""A cluster that does not let us in: one line says which, where, what was refused and what to check. No secret is told."""

import subprocess
from pathlib import Path

import pytest
from tests.runtime.conftest import INSIDES, TWINLOG

from twinlog.config.properties import properties_text
from twinlog.lab.certificates import PASSWORD, Authority
from twinlog.lab.cluster import Cluster
from twinlog.lab.listeners import MUTUAL_TLS, OAUTH, PLAINTEXT, SASL_PLAIN, SASL_PLAIN_TLS, SCRAM_512, TLS, Listener

pytestmark = pytest.mark.broker

GUESSED = "guessed-3x7"


def refused(folder: Path, cluster: Cluster, properties: dict[str, str]) -> str:
    """What `twinlog run` says when one cluster is to be entered with these properties."""
    lines = {"clusters": "us, eu", "us->eu.enabled": "true", "eu.bootstrap.servers": cluster.bootstrap(PLAINTEXT)}
    file = folder / "mm2.properties"
    file.write_text(properties_text(lines | {f"us.{key}": text for key, text in properties.items()}))
    done = subprocess.run([TWINLOG, "run", file], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in {1, 2}, done.stderr
    assert not done.stdout
    said = done.stderr
    assert not [word for word in INSIDES if word in said.replace("org.apache.kafka.common.security", "")], said
    assert not [secret for secret in (GUESSED, PASSWORD, "alice-secret") if secret in said], said
    *warnings, last = said.splitlines()
    assert all("warning" in line or line.endswith("us->eu: 2 tasks") for line in warnings), said
    return last


def address(cluster: Cluster, listener: Listener) -> str:
    return cluster.bootstrap(listener)


@pytest.mark.parametrize(
    ("listener", "words"),
    [
        (SASL_PLAIN, "PLAIN: user 'alice' is refused"),
        (SCRAM_512, "SCRAM-SHA-512: user 'alice' is refused"),
        (OAUTH, "401"),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_wrong_password(secure: Cluster, tmp_path: Path, listener: Listener, words: str) -> None:
    properties = secure.client_properties(listener, "alice")
    properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace("alice-secret", GUESSED)
    said = refused(tmp_path, secure, properties)
    assert said.startswith(f"twinlog: cluster us: {address(secure, listener)}: ")
    assert words in said
    assert "check" in said


@pytest.mark.parametrize(
    ("door", "key", "words"),
    [
        (TLS, PLAINTEXT, "the listener speaks TLS: set security.protocol to SSL or SASL_SSL"),
        (PLAINTEXT, TLS, "does the listener speak TLS (us.security.protocol = SSL)"),
        (SASL_PLAIN, PLAINTEXT, "does the listener ask for a login (security.protocol = SASL_...)?"),
        (PLAINTEXT, SASL_PLAIN, "this listener wants no login: set us.security.protocol to PLAINTEXT"),
        (SCRAM_512, SASL_PLAIN, "us.sasl.mechanism = PLAIN is not enabled on this listener, which has SCRAM-SHA-512"),
        (MUTUAL_TLS, TLS, "the broker asks for a client certificate: set ssl.keystore.location"),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_the_wrong_door(secure: Cluster, tmp_path: Path, door: Listener, key: Listener, words: str) -> None:
    properties = secure.client_properties(key, "alice") | {"bootstrap.servers": address(secure, door)}
    said = refused(tmp_path, secure, properties)
    assert "cluster us" in said
    assert address(secure, door) in said
    assert words in said


def test_a_stranger_s_certificate(secure: Cluster, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger", "stranger")
    properties = secure.client_properties(TLS) | {"ssl.truststore.location": str(stranger.truststore)}
    said = refused(tmp_path, secure, properties)
    assert "is not trusted: add its authority to us.ssl.truststore.location = " in said
    properties = secure.client_properties(MUTUAL_TLS, "alice")
    properties["ssl.keystore.location"] = str(stranger.client("alice").keystore)
    said = refused(tmp_path, secure, properties)
    assert "the broker refuses the client certificate of us.ssl.keystore.location = " in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ssl.truststore.password": GUESSED}, "us.ssl.truststore.location = "),
        ({"ssl.truststore.location": "/nowhere/trust.p12"}, "us.ssl.truststore.location = /nowhere/trust.p12"),
        ({"sasl.jaas.config": "org.apache.Nonsense required;"}, "sasl.jaas.config"),
        ({"sasl.mechanism": "DIGEST-MD5"}, "sasl.mechanism = DIGEST-MD5: expected one of PLAIN"),
    ],
)
def test_settings_that_cannot_work(secure: Cluster, tmp_path: Path, change: dict[str, str], words: str) -> None:
    said = refused(tmp_path, secure, secure.client_properties(SASL_PLAIN_TLS, "alice") | change)
    assert said.startswith("twinlog: cluster us: ")
    assert words in said
