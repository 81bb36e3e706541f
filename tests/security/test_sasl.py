"""SASL logins by the client's settings, also on a real broker."""

import pytest

from lab.cluster import Cluster
from lab.listeners import (
    SASL_PLAIN,
    SASL_PLAIN_TLS,
    SCRAM_256,
    SCRAM_256_TLS,
    SCRAM_512,
    SCRAM_512_TLS,
    Listener,
)
from tests.security.driver import authenticate, client, jaas
from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security import jaas as modules
from twinlog.security.oauth import OAuth
from twinlog.security.sasl import MECHANISMS, Plain, login
from twinlog.security.scram import Scram
from twinlog.text import MASK, one_line


def test_plain_is_name_and_password_between_zeros() -> None:
    exchange = login(
        client({"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas("plain.Plain", username="ä", password="p w")}), "h"
    )
    assert exchange.mechanism == "PLAIN"
    assert exchange.first() == "\0ä\0p w".encode()
    assert exchange.next(b"") is None


@pytest.mark.parametrize(
    ("mechanism", "module", "kind"),
    [
        ("PLAIN", "plain.Plain", Plain),
        ("PLAIN", "scram.Scram", Plain),  # works with Kafka's client, so it may be found in files
        ("SCRAM-SHA-256", "scram.Scram", Scram),
        ("SCRAM-SHA-512", "scram.Scram", Scram),
    ],
)
def test_the_mechanism_decides(mechanism: str, module: str, kind: type[object]) -> None:
    text = jaas(module, username="alice", password="hunter2")
    exchange = login(client({"sasl.mechanism": mechanism, "sasl.jaas.config": text}), "h")
    assert isinstance(exchange, kind)
    assert exchange.mechanism == mechanism
    assert "hunter2" not in repr(exchange)


def test_an_unsigned_token() -> None:
    text = jaas("oauthbearer.OAuthBearer", unsecuredLoginStringClaim_sub="alice")
    assert isinstance(login(client({"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": text}), "h"), OAuth)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sasl.mechanism": "plain"}, f"sasl.mechanism = plain: not supported; use one of {', '.join(MECHANISMS)}"),
        ({"sasl.mechanism": "AWS_MSK_IAM"}, f"does not fit sasl.mechanism = AWS_MSK_IAM; use {modules.AWS}"),
        ({"sasl.mechanism": "SCRAM-SHA-1"}, "sasl.mechanism = SCRAM-SHA-1: not supported; use one of"),
        ({}, "PlainLoginModule does not fit sasl.mechanism = GSSAPI; use com.sun.security.auth.module.Krb5LoginModule"),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, f"does not fit sasl.mechanism = SCRAM-SHA-256; use {modules.SCRAM}"),
        ({"sasl.mechanism": "OAUTHBEARER"}, f"does not fit sasl.mechanism = OAUTHBEARER; use {modules.OAUTH}"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": "hunter2 required;"},
            f"the login module does not fit sasl.mechanism = PLAIN; use {modules.PLAIN}",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas("plain.Plain", password="hunter2")},
            "PlainLoginModule has no username",
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas("scram.Scram", username="a", password="")},
            "ScramLoginModule has no password",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas("plain.Plain", username="a", password="hunter2\\0")},
            "cannot send a NUL character",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.login.callback.handler.class": "com.acme.Vault"},
            "sasl.login.callback.handler.class = com.acme.Vault: Java classes cannot be run",
        ),
        ({"sasl.mechanism": "PLAIN", "sasl.login.class": "com.acme.Login"}, "sasl.login.class = com.acme.Login: Java classes cannot be run"),
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_a_one_line_error(settings: dict[str, str], message: str) -> None:
    given = {"sasl.jaas.config": jaas("plain.Plain", username="alice", password="hunter2"), **settings}
    with pytest.raises(ConfigError) as caught:
        login(client(given), "h")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_brokers_message_is_one_line_without_the_secret() -> None:
    refused = Plain("alice", "hunter2").refused("no\nway:\x1b[31m hunter2 " + "x" * 1000)
    assert not refused.retriable
    assert f": no way: [31m {MASK} xxx" in str(refused)
    assert len(str(refused)) < 400
    assert one_line("a\u202eb\u2028c") == "a b c"


LISTENERS = [SASL_PLAIN, SASL_PLAIN_TLS, SCRAM_256, SCRAM_256_TLS, SCRAM_512, SCRAM_512_TLS]


@pytest.mark.broker
@pytest.mark.parametrize("listener", LISTENERS, ids=lambda listener: listener.name)
def test_login(secure: Cluster, listener: Listener) -> None:
    assert authenticate(secure, listener, secure.client_properties(listener, "alice")) == 0


@pytest.mark.broker
@pytest.mark.parametrize("listener", [SASL_PLAIN, SCRAM_256, SCRAM_512], ids=lambda listener: listener.name)
@pytest.mark.parametrize(("name", "password"), [("alice", "hunter2"), ("mallory", "alice-secret")])
def test_a_wrong_user_or_password(secure: Cluster, listener: Listener, name: str, password: str) -> None:
    module = "plain.Plain" if listener is SASL_PLAIN else "scram.Scram"
    wrong = {"sasl.jaas.config": jaas(module, username=name, password=password)}
    with pytest.raises(AuthenticationError) as caught:
        authenticate(secure, listener, secure.client_properties(listener, "alice") | wrong)
    assert not caught.value.retriable
    assert f"{listener.mechanism}: authentication failed for user '{name}': Authentication failed" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert password not in str(caught.value)
