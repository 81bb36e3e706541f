"""MirrorClient on a locked cluster, with the properties that a Java client of it has."""

import pytest

from twinlog.errors import LockedError
from twinlog.failover import MirrorClient
from twinlog.lab.cluster import Cluster
from twinlog.lab.listeners import MUTUAL_TLS, SCRAM_512_TLS, Listener

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("listener", [MUTUAL_TLS, SCRAM_512_TLS], ids=lambda each: each.name)
def test_it_comes_in(secure: Cluster, listener: Listener) -> None:
    remote = f"us.locked-{listener.name}"
    secure.create_topic(remote)
    secure.grant("carol", "DESCRIBE", topic=remote)
    with MirrorClient(secure.client_properties(listener, "carol")) as client:
        assert remote in client.remote_topics()


def test_a_wrong_password_is_told_in_one_line(secure: Cluster) -> None:
    properties = secure.client_properties(SCRAM_512_TLS, "carol")
    properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace("carol-secret", "guessed")
    with MirrorClient(properties, alias="eu") as client, pytest.raises(LockedError) as caught:
        client.remote_topics()
    said = str(caught.value)
    assert said.startswith(f"cluster eu: {secure.bootstrap(SCRAM_512_TLS)}: SCRAM-SHA-512: user 'carol' is refused")
    assert "guessed" not in said
    assert "\n" not in said
