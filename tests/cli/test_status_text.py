"""What `twinlog status` shows, of flows made from reports."""

import json
import re

from tests.status.samples import made_board, made_flow
from twinlog.cli.status_text import StatusOptions, as_json, as_text, worst
from twinlog.journal.messages import Report
from twinlog.status.flow import FlowStatus


def test_a_healthy_flow_is_few_lines() -> None:
    text = as_text([made_flow(3, 2)], StatusOptions())
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
    text = as_text([made_flow(20, 1, lag=5, stopped="refused: change max.message.bytes", lost=3)], StatusOptions())
    lines = text.splitlines()
    assert lines[0] == "us->eu: BROKEN (the process is running)"
    assert lines[1] == "  ! topic-00000-0 is stopped: refused: change max.message.bytes"
    table = lines[lines.index("  20 topics, 20 partitions; 20 not caught up") :]
    assert table[2].split()[:4] == ["topic-00000", "1", "stopped", "5"], "the worst one first"
    assert "... and 12 more (--topics shows all)" in text
    assert "10 to 12" in text, "which offsets were lost"
    assert len(as_text([made_flow(20, 1, lag=5)], StatusOptions(topics=True)).splitlines()) > 25


def test_a_topic_is_shown_by_its_partitions_under_either_name() -> None:
    flow = made_flow(2, 3, lag=4)
    for name in ("topic-00001", "us.topic-00001"):
        text = as_text([flow], StatusOptions(topic=name))
        assert "topic-00001 -> us.topic-00001" in text
        rows = [line.split() for line in text.splitlines() if re.match(r"    \d", line)]
        assert [row[:6] for row in rows] == [[str(n), "running", "fast", "1008", "1012", "4"] for n in range(3)]
    assert "no such topic in this flow" in as_text([flow], StatusOptions(topic="nothing"))


def test_groups_are_shown_when_asked_for() -> None:
    assert "app-1" not in as_text([made_flow()], StatusOptions())
    text = as_text([made_flow()], StatusOptions(groups=True))
    (row,) = [line.split() for line in text.splitlines() if "app-1" in line]
    assert row == ["app-1", "topic-00000", "0", "900", "108", "900", "890", "118"]


def test_control_characters_of_the_journal_do_not_reach_a_terminal() -> None:
    flow = made_flow(1, 1, stopped="\033[2Jgone\r\n")
    flow.add(Report(flow.run, 1, 0, 0, 1, {}, [{"time": 1 << 62, "kind": "a\x07b", "text": "c\x1b]0;d"}]))
    assert as_text([flow], StatusOptions(topic="topic-00000", groups=True)).replace("\n", "").isprintable()


def test_json_has_the_names_of_the_live_objects() -> None:
    board = made_board(2, 2, 2, lag=3)
    found = json.loads(as_json(board.flows, StatusOptions(groups=True)))
    assert found["level"] == "healthy"
    assert [flow["name"] for flow in found["flows"]] == ["us->eu", "eu->us"]
    flow = found["flows"][0]
    assert (flow["lag"], flow["records"], len(flow["partitions"]), len(flow["groups"])) == (12, 32, 4, 3)
    assert flow["health"] == {"level": "healthy", "reasons": []}
    assert flow["partitions"][0]["latency_avg_ms"] == 4.0
    line = as_json(board.flows, StatusOptions(), line=True)
    assert "\n" not in line
    assert "partitions" not in json.loads(line)["flows"][0], "thousands of them, every second"
    (only,) = json.loads(as_json(board.flows, StatusOptions(topic="topic-00001"), line=True))["flows"][:1]
    assert {each["topic"] for each in (*only["partitions"], *only["topics"])} == {"topic-00001"}


def test_the_json_of_a_partition_keeps_its_names_and_their_order() -> None:
    (flow,) = json.loads(as_json([made_flow(1, 1, lag=3, lost=4)], StatusOptions()))["flows"]
    (found,) = flow["partitions"]
    counters = [
        "records", "bytes", "batches", "rebuilt", "lost", "foreign", "duplicates", "skipped", "recoveries", "stalls",
        "source_throttled_ms", "target_throttled_ms",
    ]  # fmt: skip
    assert list(found) == [
        "topic", "partition", "remote", "state", "lane", "position", "end", "start", "target", "lag", "lag_seconds",
        "error", "waits", "task", "records_per_s", "bytes_per_s", "latency_ms", "latency_avg_ms", "latency_max_ms",
        "age_avg_ms", *counters,
    ]  # fmt: skip
    assert [name for name in flow if name in counters] == counters
    assert (found["state"], found["lag"], found["lost"], found["waits"]) == ("running", 3, 4, "")
    assert (found["latency_avg_ms"], found["age_avg_ms"]) == (4.0, 2.0)


def test_the_worst_flow_counts() -> None:
    healthy, broken = made_flow(), made_flow(stopped="x")
    assert worst([], 60) == "healthy"
    assert worst([healthy], 60) == "healthy"
    assert worst([healthy, made_flow(lag=3)], 1) == "lagging"
    assert worst([healthy, broken, made_flow(lag=3)], 1) == "broken"
    assert worst([FlowStatus("", "us->eu")], 60) == "healthy"


def test_what_is_left_out_and_what_is_throttled_is_shown() -> None:
    flow = made_flow(1, 1)
    event = {
        "kind": "cycle",
        "about": "eu",
        "amount": 1,
        "text": "1 topic is not replicated (replication cycle): eu.orders",
    }
    place = {"topic": "topic-00000", "partition": 0, "remote": "us.topic-00000", "position": 1008, "end": 1008}
    held = {**place, "records": 9, "source_throttled_ms": 7000}
    flow.add(Report(flow.run, 1, 0, 0, int(flow.reported_at * 1000), {"topic-00000-0": held}, [event]))
    text = as_text([flow], StatusOptions())
    assert re.search(r"^  left out +1 topic is not replicated \(replication cycle\): eu\.orders$", text, re.MULTILINE)
    assert re.search(r"^  throttled +7 s by us \(the source\), summed over partitions$", text, re.MULTILINE)
    (shown,) = json.loads(as_json([flow], StatusOptions()))["flows"]
    assert shown["left_out"] == [event["text"]]
    assert (shown["source_throttled_ms"], shown["target_throttled_ms"]) == (7000, 0)
