"""Java's names of cipher suites, compared with Java and with OpenSSL's own table."""

import shutil
import ssl
import subprocess

import pytest

from lab.kafka_classes import KafkaJvm
from twinlog.security.ciphers import openssl_name, translate


@pytest.mark.java
def test_every_suite_that_java_has_is_known(kafka_jvm: KafkaJvm) -> None:
    context = kafka_jvm.jvm.javax.net.ssl.SSLContext.getDefault()
    names = [str(name) for name in context.getSupportedSSLParameters().getCipherSuites()]
    suites = translate(names)
    assert len(suites.modern) == 3
    assert len(suites.older) + len(suites.unused) + 1 >= len(names) - 3  # one name is a signal, no suite
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.set_ciphers(":".join(suites.older))
    offered = {each["name"] for each in made.get_ciphers()}
    assert set(suites.older) <= offered


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl command on this machine")
def test_names_are_those_of_openssls_own_table() -> None:
    listed = subprocess.run(
        ["openssl", "ciphers", "-stdname", "ALL:@SECLEVEL=0"], check=True, capture_output=True, text=True
    )
    table = {line.split()[0]: line.split()[2] for line in listed.stdout.splitlines()}
    known = {name: openssl_name(name) for name in table if openssl_name(name)}
    assert known == {name: table[name] for name in known}
    assert len(known) > 20


def test_suites_disabled_in_java_are_unused() -> None:
    suites = translate(
        ["TLS_RSA_WITH_NULL_SHA256", "TLS_ECDH_anon_WITH_AES_128_CBC_SHA", "SSL_RSA_WITH_3DES_EDE_CBC_SHA",
         "TLS_ECDH_RSA_WITH_AES_128_CBC_SHA", "TLS_AES_128_GCM_SHA256", "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"]
    )  # fmt: skip
    assert (suites.older, suites.modern, len(suites.unused)) == ((), ("TLS_AES_128_GCM_SHA256",), 4)


@pytest.mark.parametrize(
    "name",
    ["foo", "ECDHE-RSA-AES128-GCM-SHA256", "tls_aes_128_gcm_sha256", "TLS_AES_128_CCM_SHA256", "TLS_RSA_WITH_", ""],
)
def test_a_name_that_java_refuses_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a cipher suite"):
        translate([name])
