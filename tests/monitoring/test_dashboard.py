"""The Grafana dashboard, checked without Grafana."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.monitoring.conftest import DASHBOARD
from twinlog.metrics.exposition import SECTIONS

BOARD: dict[str, Any] = json.loads(DASHBOARD.read_text())


def panels() -> Iterator[dict[str, Any]]:
    for panel in BOARD["panels"]:
        yield panel
        yield from panel.get("panels", ())


def expressions() -> Iterator[tuple[str, str]]:
    """(panel, expression)"""
    for panel in panels():
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for annotation in BOARD["annotations"]["list"]:
        if "expr" in annotation:
            yield annotation["name"], annotation["expr"]


def test_it_can_be_imported() -> None:
    assert BOARD["id"] is None
    assert BOARD["uid"]
    assert BOARD["schemaVersion"] == 42
    variables = {each["name"]: each for each in BOARD["templating"]["list"]}
    assert list(variables) == ["datasource", "instance", "flow", "topic"]
    assert variables["datasource"]["type"] == "datasource"
    used = [panel["datasource"]["uid"] for panel in panels() if panel["type"] != "row"]
    used += [target["datasource"]["uid"] for panel in panels() for target in panel.get("targets", ())]
    used += [each["datasource"]["uid"] for each in variables.values() if each["type"] == "query"]
    assert set(used) == {"${datasource}"}


def test_panels_do_not_overlap() -> None:
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        position = panel["gridPos"]
        cells = {(position["x"] + x, position["y"] + y) for x in range(position["w"]) for y in range(position["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_targets_have_unique_ids() -> None:
    for panel in panels():
        refs = [target["refId"] for target in panel.get("targets", ())]
        assert len(refs) == len(set(refs)), panel["title"]


def test_only_existing_metrics_are_queried() -> None:
    names = {metric.name for section in SECTIONS for metric in section.metrics}
    queried = {name for _, text in expressions() for name in re.findall(r"\b(?:twinlog|kafka)_\w+", text)}
    assert queried - names == set()
    assert len(queried) > 25


def test_only_existing_columns_are_renamed() -> None:
    for panel in panels():
        if panel["type"] != "table":
            continue
        targets = {f"Value #{target['refId']}" for target in panel["targets"]} | {"Value"}
        labels = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", str(panel["targets"])))))
        labels |= {"flow", "topic", "partition", "instance"}
        renamed = panel["transformations"][-1]["options"]["renameByName"]
        assert set(renamed) <= targets | labels, panel["title"]
        shown = set(renamed.values())
        assert {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]} <= shown
