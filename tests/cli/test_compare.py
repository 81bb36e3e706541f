"""`twinlog compare`: which differences from MM2 apply to a file and its clusters; and that the docs list all of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.lab import Lab
from tests.cli.conftest import fill, settings_file, twinlog, unchanged
from twinlog.inspect.mm2_differences import DIFFERENCES, HEADER

_DOCS = Path(__file__).parents[2] / "docs"


def _compared(file: Path, flow: str = "us->eu") -> dict[str, str]:
    run = twinlog("compare", file, "--flow", flow, "--json")
    assert run.returncode == 0, run.stderr
    (found,) = json.loads(run.stdout)["flows"]
    return {each["id"]: each["detail"] for each in found["differences"]}


def test_the_docs_list_every_difference() -> None:
    table = "\n".join([HEADER, *(each.row for each in DIFFERENCES)])
    assert table in (_DOCS / "coming-from-mm2.md").read_text(), "python -m twinlog.inspect.mm2_differences prints it"
    assert len({each.id for each in DIFFERENCES}) == len(DIFFERENCES)


@pytest.mark.broker
def test_what_applies_to_these_clusters(tmp_path: Path, us: Cluster, eu: Cluster) -> None:
    for name in ("cmp-orders", "cmp-state.internal", "us.cmp-x"):
        us.create_topic(name)
    fill(us, "cmp-orders", 0, 10)
    wanted = {"topics": r"(us\.)?cmp-.*", "groups": "cmp-.*"}
    with unchanged(us, eu):
        found = _compared(settings_file(tmp_path, us, eu, wanted))
        text = twinlog("compare", tmp_path / "mm2.properties", "--flow", "us->eu").stdout
    assert "rights" not in found, "no authorizer"
    assert found["looks-internal"] == "topic cmp-state.internal"
    assert found["own-alias"] == "topic us.cmp-x"
    assert {"aborted", "compression", "deleted-remote-topic", "internal-topics", "crash"} <= found.keys()
    assert not {"cycles", "control-topics", "exactly-once"} & found.keys()
    assert "topics that end with .internal or -internal" in text
    assert text.endswith("Nothing was changed.\n")
    settled = {
        **wanted,
        "topics.exclude": r".*[\-\.]internal",
        "us.consumer.isolation.level": "read_committed",
        "eu.producer.compression.type": "lz4",
        "eu.producer.linger.ms": "5",
        "refresh.topics.interval.seconds": "600",
        "twinlog.deleted.remote.topics": "continue",
        "eu.exactly.once.source.support": "enabled",
    }
    found = _compared(settings_file(tmp_path, us, eu, settled))
    assert not {"looks-internal", "aborted", "compression", "refresh", "deleted-remote-topic"} & found.keys()
    assert "eu.producer.linger.ms" in found["no-effect"]
    assert "exactly-once" in found


@pytest.mark.broker
def test_what_the_principal_of_mm2_lacks(tmp_path: Path, us: Cluster, lab: Lab) -> None:
    """It may create and write remote topics. Twinlog also reads them, and writes a journal."""
    (outer,) = lab.clusters(ClusterSpec(name="outer", authorizer=True))
    try:
        us.create_topic("cmp-rights")
        outer.create_topic("us.cmp-rights")
        for operation in ("CREATE", "DESCRIBE", "WRITE", "ALTER", "ALTER_CONFIGS", "DESCRIBE_CONFIGS"):
            outer.grant("ANONYMOUS", operation, topic="us.cmp-rights")
        for operation in ("CREATE", "DESCRIBE", "READ", "WRITE"):
            for name in ("mm2-offsets.us.internal", "us.checkpoints.internal", "heartbeats"):
                outer.grant("ANONYMOUS", operation, topic=name)
        file = settings_file(
            tmp_path, us, outer, {"topics": "cmp-rights", "groups": "none", "sync.topic.acls.enabled": "false"}
        )
        detail = _compared(file, "us->outer")["rights"]
        assert "Read on topic us.cmp-rights" in detail
        assert "topic mm2-twinlog.us.internal" in detail
        run = twinlog("doctor", file, "--flow", "us->outer", "--json")
        advice = [each["advice"] for each in _findings(run.stdout) if each["check"] == "rights"]
        assert any("--operation Read --topic us.cmp-rights" in each for each in advice), advice
        journal = next(each for each in advice if "mm2-twinlog.us.internal" in each)
        assert journal.startswith(f"kafka-acls --bootstrap-server {outer.bootstrap()} --add")
        for operation in ("Create", "Write", "Read"):
            assert f"--operation {operation}" in journal
    finally:
        lab.discard(outer)


def _findings(text: str) -> list[dict[str, Any]]:
    found = json.loads(text)
    return list(found["findings"])
