"""What `twinlog status` shows, of flows that nobody runs."""

import json
import re

from tests.status.made import made_board, made_flow

from twinlog.status.flow import FlowStatus
from twinlog.surface.status_view import View, as_json, as_text, worst
from twinlog.tracking.journal import Report


def test_a_healthy_flow_is_few_lines() -> None:
    text = as_text([made_flow(3, 2)], View())
    assert text.startswith("us->eu: healthy, running\n")
    assert "3 topics, 6 partitions: all caught up" in text
    assert re.search(r"^  lag +0 records, 0 s$", text, re.MULTILINE)
    assert re.search(r"^  speed +6 records/s, 600 B/s$", text, re.MULTILINE)
    assert re.search(r"^  latency +p50 4 ms, p99 9 ms$", text, re.MULTILINE)
    assert re.search(r"^  copied +48 records, 4.8 kB since ", text, re.MULTILINE)
    assert "1 (0: worker-1:4711), epoch 1" in text
    assert "heartbeat" in text
    assert len(text.splitlines()) < 12


def test_what_is_wrong_comes_first_with_what_to_do() -> None:
    text = as_text([made_flow(20, 1, lag=5, stopped="refused: change max.message.bytes", lost=3)], View())
    lines = text.splitlines()
    assert lines[0] == "us->eu: BROKEN (the process runs)"
    assert lines[1] == "  ! topic-00000-0 is stopped: refused: change max.message.bytes"
    table = lines[lines.index("  20 topics, 20 partitions; 20 not caught up") :]
    assert table[2].split()[:4] == ["topic-00000", "1", "stopped", "5"], "the worst one first"
    assert "... and 12 more (--topics shows all)" in text
    assert "10 to 12" in text, "which offsets were lost"
    assert len(as_text([made_flow(20, 1, lag=5)], View(topics=True)).splitlines()) > 25


def test_a_topic_is_shown_by_its_partitions_under_either_name() -> None:
    flow = made_flow(2, 3, lag=4)
    for name in ("topic-00001", "us.topic-00001"):
        text = as_text([flow], View(topic=name))
        assert "topic-00001 -> us.topic-00001" in text
        rows = [line.split() for line in text.splitlines() if re.match(r"    \d", line)]
        assert [row[:6] for row in rows] == [[str(n), "running", "fast", "1008", "1012", "4"] for n in range(3)]
    assert "no such topic in this flow" in as_text([flow], View(topic="nothing"))


def test_groups_are_shown_when_asked_for() -> None:
    assert "app-1" not in as_text([made_flow()], View())
    text = as_text([made_flow()], View(groups=True))
    (row,) = [line.split() for line in text.splitlines() if "app-1" in line]
    assert row == ["app-1", "topic-00000", "0", "900", "108", "900", "890", "118"]


def test_whoever_writes_to_the_journal_does_not_write_to_a_terminal() -> None:
    flow = made_flow(1, 1, stopped="\033[2Jgone\r\n")
    flow.add(Report(flow.run, 1, 0, 0, 1, {}, [{"time": 1 << 62, "kind": "a\x07b", "text": "c\x1b]0;d"}]))
    assert as_text([flow], View(topic="topic-00000", groups=True)).replace("\n", "").isprintable()


def test_json_has_the_names_of_the_live_objects() -> None:
    board = made_board(2, 2, 2, lag=3)
    found = json.loads(as_json(board.flows, View(groups=True)))
    assert found["level"] == "healthy"
    assert [flow["name"] for flow in found["flows"]] == ["us->eu", "eu->us"]
    flow = found["flows"][0]
    assert (flow["lag"], flow["records"], len(flow["partitions"]), len(flow["groups"])) == (12, 32, 4, 3)
    assert flow["health"] == {"level": "healthy", "reasons": []}
    assert flow["partitions"][0]["latency_avg_ms"] == 4.0
    line = as_json(board.flows, View(), line=True)
    assert "\n" not in line
    assert "partitions" not in json.loads(line)["flows"][0], "thousands of them, every second"
    (only,) = json.loads(as_json(board.flows, View(topic="topic-00001"), line=True))["flows"][:1]
    assert {each["topic"] for each in (*only["partitions"], *only["topics"])} == {"topic-00001"}


def test_the_worst_flow_counts() -> None:
    healthy, broken = made_flow(), made_flow(stopped="x")
    assert worst([], 60) == "healthy"
    assert worst([healthy], 60) == "healthy"
    assert worst([healthy, made_flow(lag=3)], 1) == "lagging"
    assert worst([healthy, broken, made_flow(lag=3)], 1) == "broken"
    assert worst([FlowStatus("", "us->eu")], 60) == "healthy"
