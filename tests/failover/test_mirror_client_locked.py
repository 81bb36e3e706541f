"""MirrorClient on a secured cluster, with the properties of a Java client."""

import pytest

from lab.cluster import Cluster
from lab.listeners import MUTUAL_TLS, SCRAM_512_TLS, Listener
from twinlog.errors import AuthenticationError
from twinlog.failover import MirrorClient

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("listener", [MUTUAL_TLS, SCRAM_512_TLS], ids=lambda each: each.name)
def test_it_connects(secure: Cluster, listener: Listener) -> None:
    remote = f"us.secured-{listener.name}"
    secure.create_topic(remote)
    secure.grant("carol", "DESCRIBE", topic=remote)
    with MirrorClient(secure.client_properties(listener, "carol")) as client:
        assert remote in client.remote_topics()


def test_a_wrong_password_is_one_line(secure: Cluster) -> None:
    properties = secure.client_properties(SCRAM_512_TLS, "carol")
    properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace("carol-secret", "guessed")
    with MirrorClient(properties, alias="eu") as client, pytest.raises(AuthenticationError) as caught:
        client.remote_topics()
    said = str(caught.value)
    assert said.startswith(
        f"cluster eu: {secure.bootstrap(SCRAM_512_TLS)}: SCRAM-SHA-512: authentication failed for user 'carol'"
    )
    assert "guessed" not in said
    assert "\n" not in said
