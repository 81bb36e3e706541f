"""The parts of the lab that need no broker."""

import base64
import json
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from lab import acls, cleanup_process, java_process, listeners, ports
from lab.broker import ClusterSpec, server_properties
from lab.errors import LabError
from lab.jars import ROOTS
from lab.listeners import CONTROLLER, INTERNAL, OAUTH, PLAINTEXT, SASL_PLAIN, SCRAM_512, TLS, Listener, Secrets
from lab.oauth_server import TokenIssuer


def test_the_cleanup_process_knows_what_is_left_of_its_parent() -> None:
    lines = ["+ process 1\n", "+ folder /tmp/a b\n", "+ process 2\n", "- process 1\n", "+ folder /c\n", "- folder /c\n"]
    assert cleanup_process.remaining(lines) == ({2}, {"/tmp/a b"})


def test_ports_are_outside_the_ephemeral_range_and_unique() -> None:
    low, high = ports.ephemeral_range()
    found = [ports.free_port() for _ in range(50)]
    assert len(set(found)) == 50
    assert not [port for port in found if low <= port <= high]


def test_a_port_in_use_is_not_free() -> None:
    with socket.socket() as used:
        used.bind((ports.HOST, 0))
        assert not ports._is_free(used.getsockname()[1])


def test_if_all_ports_are_ephemeral_any_port_is_used() -> None:
    assert ports.outside((1024, 65535)) == list(range(10_000, 65_536))
    assert ports.outside((32768, 60999))[-1] == 65535


@pytest.mark.parametrize(("brokers", "voters"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5)])
def test_the_number_of_controllers_is_odd(brokers: int, voters: int) -> None:
    assert len(ClusterSpec(name="us", brokers=brokers).controllers) == voters


def properties(spec: ClusterSpec, node: int = 0) -> dict[str, str]:
    listener_ports = {each: 1000 + number for number, each in enumerate((*spec.listeners, INTERNAL, CONTROLLER))}
    voters = dict.fromkeys(spec.controllers, listener_ports[CONTROLLER])
    return server_properties(spec, node, listener_ports, voters, Secrets(spec.users), Path("data"))


def test_settings_override_the_labs_defaults() -> None:
    assert properties(ClusterSpec(name="us"))["auto.create.topics.enable"] == "false"
    changed = ClusterSpec(name="us", settings={"auto.create.topics.enable": "true"})
    assert properties(changed)["auto.create.topics.enable"] == "true"


def test_only_controllers_have_a_controller_listener() -> None:
    spec = ClusterSpec(name="us", brokers=2)
    assert "CONTROLLER://" in properties(spec, 0)["listeners"]
    assert properties(spec, 0)["process.roles"] == "broker,controller"
    assert "CONTROLLER://" not in properties(spec, 1)["listeners"]
    assert properties(spec, 1)["process.roles"] == "broker"


def test_brokers_older_than_kraft_use_zookeeper() -> None:
    spec = ClusterSpec(name="us", brokers=3, line="2.8", authorizer=True)
    assert (spec.zookeeper, len(spec.controllers)) == (True, 0)
    made = server_properties(spec, 1, {PLAINTEXT: 1, INTERNAL: 2}, "localhost:3", Secrets(), Path("data"))
    assert (made["broker.id"], made["zookeeper.connect"]) == ("1", "localhost:3")
    assert made["authorizer.class.name"].endswith("AclAuthorizer")
    assert not [key for key in made if key.startswith(("controller.", "process.", "node."))]
    assert [line for line in ROOTS if line[0].isdigit() and ClusterSpec(name="us", line=line).zookeeper] == ["2.8"]


def test_replication_factor_of_internal_topics() -> None:
    factors = [properties(ClusterSpec(name="us", brokers=n))["offsets.topic.replication.factor"] for n in (1, 2, 3, 5)]
    assert factors == ["1", "2", "3", "3"]


def test_broker_and_client_properties_of_a_password_listener_match() -> None:
    secrets = Secrets(("alice",))
    broker = listeners.broker_properties(SASL_PLAIN, secrets)
    assert 'user_alice="alice-secret"' in broker["listener.name.sasl_plain.plain.sasl.jaas.config"]
    client = listeners.client_properties(SASL_PLAIN, "alice", secrets)
    assert client["security.protocol"] == "SASL_PLAINTEXT"
    assert 'username="alice" password="alice-secret"' in client["sasl.jaas.config"]


def test_the_super_user_is_known_to_the_internal_listener_only() -> None:
    secrets = Secrets(("alice",))
    assert "user_lab=" in str(listeners.broker_properties(INTERNAL, secrets))
    assert "user_alice=" not in str(listeners.broker_properties(INTERNAL, secrets))
    assert "user_lab=" not in str(listeners.broker_properties(SASL_PLAIN, secrets))


@pytest.mark.parametrize(
    ("listener", "user", "message"),
    [
        (SCRAM_512, None, "listener SCRAM_512 requires authentication"),
        (TLS, None, "listener TLS needs certificates"),
        (OAUTH, "alice", "listener OAUTH needs a token issuer"),
    ],
)
def test_errors_of_incomplete_listeners(listener: Listener, user: str | None, message: str) -> None:
    with pytest.raises(LabError, match=message):
        listeners.client_properties(listener, user, Secrets())


def test_listener_names_are_unique() -> None:
    assert len({listener.name for listener in (*listeners.EVERY, INTERNAL, CONTROLLER)}) == len(listeners.EVERY) + 2
    assert PLAINTEXT.protocol == "PLAINTEXT"


def test_an_acl_resource_ending_with_a_star_is_a_prefix() -> None:
    literal, prefixed, everything = (
        acls.entries("alice", ["read"], {"topic": name}, allow=True)[0].resource_pattern
        for name in ("orders", "orders-*", "*")
    )
    assert (literal.resource_name, literal.pattern_type.name) == ("orders", "LITERAL")
    assert (prefixed.resource_name, prefixed.pattern_type.name) == ("orders-", "PREFIXED")
    assert (everything.resource_name, everything.pattern_type.name) == ("*", "LITERAL")
    with pytest.raises(LabError, match="FLY"):
        acls.entries("alice", ["fly"], {"topic": "orders"}, allow=True)


def test_oauth_urls_are_found_under_a_clusters_prefix() -> None:
    found = java_process.oauth_urls({"us.sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token", "a": "b"})
    assert found == ["http://127.0.0.1:1/token"]


def part(token: str, number: int) -> bytes:
    text = token.split(".")[number]
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")


def test_a_token_is_signed_with_the_published_key() -> None:
    issuer = TokenIssuer({"alice": "secret of alice"})
    try:
        with urllib.request.urlopen(issuer.endpoints.jwks) as response:
            (key,) = json.load(response)["keys"]
        credentials = base64.b64encode(b"alice:secret+of+alice").decode()
        request = urllib.request.Request(
            issuer.endpoints.token, b"grant_type=client_credentials", {"Authorization": f"Basic {credentials}"}
        )
        with urllib.request.urlopen(request) as response:
            token = json.load(response)["access_token"]
    finally:
        issuer.close()
    public = rsa.RSAPublicNumbers(number(key["e"]), number(key["n"])).public_key()
    public.verify(part(token, 2), token.rpartition(".")[0].encode(), padding.PKCS1v15(), hashes.SHA256())
    assert json.loads(part(token, 1))["sub"] == "alice"


@pytest.mark.parametrize(
    ("header", "form"),
    [
        ("", "grant_type=client_credentials"),
        ("", "grant_type=client_credentials&client_id=alice&client_secret=guessed"),
        ("Basic " + base64.b64encode(b"alice:secret").decode(), "grant_type=password"),
        ("Basic " + base64.b64encode(b"mallory:secret").decode(), "grant_type=client_credentials"),
        ("Basic !", "grant_type=client_credentials"),
    ],
)
def test_no_token_without_the_right_secret(header: str, form: str) -> None:
    issuer = TokenIssuer({"alice": "secret"})
    try:
        request = urllib.request.Request(issuer.endpoints.token, form.encode(), {"Authorization": header})
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request)
        caught.value.close()
        assert caught.value.code == 401
    finally:
        issuer.close()
