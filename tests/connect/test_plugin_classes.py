"""A connector cannot run arbitrary code: only classes that the operator listed are loaded."""

from pathlib import Path

import pytest

from tests.connect.conftest import Config, Side

pytestmark = [pytest.mark.broker, pytest.mark.spark]

KEYS = ("topic.filter.class", "group.filter.class", "config.property.filter.class", "replication.policy.class")


@pytest.mark.parametrize("key", KEYS)
def test_an_unlisted_class_is_rejected(ours: Side, config: Config, tmp_path: Path, key: str) -> None:
    """`Popen` would run the settings as a command: the keys are its words."""
    marker = tmp_path / "ran"
    kind = "MirrorCheckpointConnector" if key.startswith("group") else "MirrorSourceConnector"
    hostile = {"/usr/bin/touch": "", str(marker): "", **config(kind), key: "subprocess:Popen"}
    made = ours.send("POST", "/connectors", {"name": "hostile", "config": hostile})
    if made.status == 201:
        ours.delete("hostile")
    assert not marker.exists()
    assert made.status == 400
    assert f"{key} = 'subprocess:Popen'" in made.json["message"]
    assert "--plugin subprocess:Popen" in made.json["message"]
