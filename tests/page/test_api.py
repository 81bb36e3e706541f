"""The JSON API of the page: only changes are returned."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.page.scenes import Flow, Stage
from twinlog.errors import TwinlogError

Staged = Callable[..., Stage]


def get(stage: Stage, path: str) -> Any:
    with urllib.request.urlopen(f"{stage.url}/twinlog/{path}") as answer:
        return json.loads(answer.read())


def refused(stage: Stage, path: str) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as caught, urllib.request.urlopen(f"{stage.url}/twinlog/{path}"):
        pass
    with caught.value as error:
        return error.code, json.loads(error.read())["message"]


def table(answer: Any) -> dict[str, dict[str, Any]]:
    found = [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]
    return {str(row.get("topic", row.get("partition"))): row for row in found}


@pytest.fixture
def flow() -> Flow:
    flow = Flow("us", "eu", {"orders": 3, "clicks": 1})
    flow.report()
    return flow


def test_only_changes_are_returned(stage: Staged, flow: Flow) -> None:
    there = stage(flow)
    first = get(there, "topics")
    assert first["full"]
    assert set(table(first)) == {"orders", "clicks"}
    flow.report(flow.move(5, names=["orders-1"], left=2))
    second = get(there, f"topics?since={first['version']}")
    assert not second["full"]
    assert set(table(second)) == {"orders"}
    row = table(second)["orders"]
    assert (row["partitions"], row["lag"], row["records"], row["level"]) == (3, 2, 5, "healthy")
    flow.report(["clicks-0"])  # as it was
    third = get(there, f"topics?since={second['version']}")
    assert "clicks" not in table(third)


def test_a_removed_row_leads_to_a_full_response(stage: Staged, flow: Flow) -> None:
    there = stage(flow)
    first = get(there, "topics")
    flow.add("shipments", 1)
    flow.report(["shipments-0"])
    second = get(there, f"topics?since={first['version']}")
    assert (second["full"], set(table(second))) == (False, {"shipments"})
    flow.partitions.pop("clicks-0")
    flow.epoch = 2
    flow.report()
    flow.report(["orders-0"], at=flow.status.reported_at + 6)
    third = get(there, f"topics?since={second['version']}")
    assert (third["full"], set(table(third))) == (True, {"orders", "shipments"})
    there.show()
    assert get(there, f"topics?since={third['version']}")["rows"] == []
    there.show(flow)
    assert set(table(get(there, f"topics?since={third['version']}"))) == {"orders", "shipments"}


def test_a_new_run_of_a_flow_replaces_the_old_one(stage: Staged, flow: Flow) -> None:
    there = stage(flow)
    first = get(there, "topics")
    again = Flow("us", "eu", {"orders": 3})
    again.report()
    there.show(again)
    second = get(there, f"topics?since={first['version']}")
    assert (second["full"], set(table(second))) == (True, {"orders"})


def test_a_token_of_another_process_is_ignored(stage: Staged, flow: Flow) -> None:
    there = stage(flow)
    before = get(there, "topics")["version"], get(there, "events")["version"], get(there, "flows")["boot"]
    there.close()
    there.open()
    assert get(there, f"topics?since={before[0]}")["full"]
    assert get(there, f"events?since={before[1]}")["full"]
    assert get(there, "flows")["boot"] != before[2]
    for token in ("", ".", "x.1", "1", f"{before[0]}9999", before[0].replace(".", ".-"), "é.²"):
        assert get(there, f"topics?since={quote(token)}")["full"]


def test_partitions_of_a_topic_and_lag_reasons(stage: Staged, flow: Flow) -> None:
    there = stage(flow)
    path = f"partitions?flow={quote('us->eu')}&topic=orders"
    first = get(there, path)
    assert (first["remote"], first["why"]) == ("us.orders", [])
    flow.partitions["orders-2"] |= {"state": "recovering", "error": "eu: no leader", "end": 1500, "lane": "rebuild"}
    flow.report(["orders-2"])
    second = get(there, f"{path}&since={first['version']}")
    assert set(table(second)) == {"2"}
    row = table(second)["2"]
    assert (row["position"], row["end"], row["target"], row["lag"]) == (1000, 1500, 990, 500)
    assert (row["task"], row["executor"], row["error"]) == (0, "worker-1:4711", "eu: no leader")
    assert second["why"][0] == "Partition 2: eu: no leader"
    assert any("Partition 2 alone has 100 % of the lag" in reason for reason in second["why"])
    assert any("rebuild lane" in reason for reason in second["why"])
    flow.supervisor_report("paused")
    assert get(there, path)["why"][0].startswith("The flow is paused")


def test_events_come_once_and_in_order(stage: Staged, flow: Flow) -> None:
    there = stage(flow)
    flow.report([], events=[flow.event("retry", "one"), flow.event("retry", "two")])
    first = get(there, "events")
    assert [event["text"] for event in first["items"]] == ["one", "two"]
    assert first["items"][0]["flow"] == "us->eu"
    flow.report([], events=[flow.event("lost", "three", "orders-1", 7, first=3, last=9)])
    second = get(there, f"events?since={first['version']}")
    assert [event["text"] for event in second["items"]] == ["three"]
    assert get(there, f"events?since={second['version']}")["items"] == []
    (lost,) = get(there, "lost")["items"]
    assert (lost["flow"], lost["topic"], lost["partition"], lost["first"], lost["last"]) == (
        "us->eu",
        "orders",
        1,
        3,
        9,
    )
    # More than a flow keeps: the newest remain, without duplicates.
    flow.report([], events=[flow.event("retry", f"number {number}") for number in range(1500)])
    third = get(there, f"events?since={second['version']}")
    assert [event["text"] for event in third["items"]] == [f"number {number}" for number in range(500, 1500)]


def test_malformed_events_are_sanitized(stage: Staged, flow: Flow) -> None:
    odd: list[Any] = [
        {"time": float("nan"), "kind": 3, "text": None, "flow": "another", "amount": "many"},
        {"text": "half a character: \ud800", "time": "yesterday"},
        {},
    ]
    flow.report([], events=odd)
    first, second, third = get(stage(flow), "events")["items"]
    assert first == {"flow": "us->eu", "time": 0, "kind": "3", "text": "None"}
    assert (second["text"], second["time"]) == ("half a character: ?", 0)
    assert third == {"flow": "us->eu", "time": 0, "kind": "", "text": ""}


def test_groups_and_history(stage: Staged) -> None:
    flow = Flow("us", "eu", {"orders": 2}, minutes=1)
    flow.groups(["billing"])
    there = stage(flow)
    group = table(get(there, "groups"))["us.orders"]
    assert (group["group"], group["source_offset"], group["source_lag"], group["target_lag"]) == (
        "billing",
        900,
        100,
        110,
    )
    points = get(there, "history")["flows"]["us->eu"]
    assert len(points) >= 12
    assert [point[0] for point in points] == sorted(point[0] for point in points)
    assert get(there, f"history?since={points[-3][0] + 0.9}")["flows"]["us->eu"] == points[-2:]
    assert get(there, "history?since=yesterday")["flows"]["us->eu"] == points


def test_flows_overview(stage: Staged, flow: Flow) -> None:
    overview = get(stage(flow), "flows")
    (found,) = overview["flows"]
    assert (found["name"], found["source"], found["target"], found["state"]) == ("us->eu", "us", "eu", "running")
    assert found["health"] == {"level": "healthy", "reasons": []}
    assert found["executors"] == {"0": "worker-1:4711", "1": "worker-2:4711"}
    assert (overview["plan"], found["partitions"]) == (False, 4)


def test_not_found(stage: Staged, flow: Flow) -> None:
    there = stage(flow)
    assert refused(there, "partitions?flow=nobody&topic=x") == (404, "flow nobody: not found")
    assert refused(there, f"partitions?flow={quote('us->eu')}&topic=x")[0] == 404
    assert refused(there, "plan") == (404, "plan: not available in this process; run twinlog plan CONFIG")

    def unreachable() -> str:
        raise TwinlogError("eu: no broker answers")

    assert refused(stage(flow, plan=unreachable), "plan") == (500, "eu: no broker answers")


def test_static_files(stage: Staged) -> None:
    there = stage()
    with urllib.request.urlopen(f"{there.url}/static/js/main.js") as answer:
        kind, etag = answer.headers["content-type"], answer.headers["etag"]
        policy = answer.headers["content-security-policy"]
    assert kind == "text/javascript; charset=utf-8"
    assert "default-src 'self'" in policy
    assert "require-trusted-types-for 'script'" in policy  # the browser refuses to turn text into markup
    assert "unsafe" not in policy
    same = urllib.request.Request(f"{there.url}/static/js/main.js", headers={"if-none-match": etag})
    with pytest.raises(urllib.error.HTTPError, match="304") as caught, urllib.request.urlopen(same):
        pass
    caught.value.close()
    with urllib.request.urlopen(f"{there.url}/static/vendor/uPlot.LICENSE") as answer:
        assert b"MIT" in answer.read()
    for path in ("../api.py", "..%2f..%2fcli.py", "%2e%2e/page.py", "/etc/passwd", "js", "", "js/../../__init__.py"):
        with pytest.raises(urllib.error.HTTPError, match="404") as caught, urllib.request.urlopen(f"{there.url}/static/{path}"):  # fmt: skip
            pass
        caught.value.close()
