"""--once ends although a topic was deleted before it was copied; the other topics are copied."""

from typing import Any

import pytest

from lab import batches
from lab.batches import Record
from lab.cluster import Cluster
from lab.raw_protocol import RawProtocol
from tests.replicate.conftest import Running
from twinlog.replicate import partition_lifecycle
from twinlog.replicate.partition import State

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("side", ["source", "target"])
def test_once_gives_up_a_missing_topic(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    monkeypatch.setattr(partition_lifecycle, "GIVE_UP_SECONDS", 1.0)
    good, gone = f"{topic}-good", f"{topic}-gone"
    flow = mirror(us, eu, f"{topic}-.*")
    for name in (good, gone):
        us.create_topic(name)
        with RawProtocol(us.client_properties()) as wire:
            wire.produce(name, 0, batches.encode([Record(0, b"key", b"value")]))
    job = flow.job(once=True)
    cluster, missing = (us, gone) if side == "source" else (eu, flow.remote(gone))
    cluster.delete_topic(missing)
    with Running(job) as running:
        assert running.wait() == "done", str(running)
        assert running[good].state is State.DONE
        assert running[gone].state is State.STOPPED
        assert running[gone].report.error.endswith("; the topic is missing")
        assert f"{missing}-0" in running[gone].report.error
    flow.until_equal(good, seconds=0)
