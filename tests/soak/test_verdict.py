"""A copy is judged by the numbers of its records, recovery by end offsets, memory by samples."""

import json

from soak.arrivals import Recovery
from soak.report import FINDINGS, Injected, Report, TopicResult, as_json, as_markdown, as_text
from soak.traffic import TOPICS, Sent, key_of
from soak.usage import Sample, growth
from soak.verdict import Verdict, judge

COMPACTED = next(topic for topic in TOPICS if topic.compacted)


def sent(*acknowledged: int, aborted: tuple[int, ...] = (), count: int = 100) -> Sent:
    return Sent(count, set(acknowledged), set(aborted))


def test_all_codecs_are_used() -> None:
    assert {topic.codec for topic in TOPICS} == {"none", "gzip", "snappy", "lz4", "zstd"}


def test_a_complete_copy_is_clean() -> None:
    verdict = judge(sent(0, 1, 3), [0, 1, 2, 3])
    assert verdict == Verdict(4), "2 is in doubt: it was sent, and not acknowledged"
    assert verdict.clean
    assert str(verdict) == "4 records: complete, each once, in order"


def test_what_is_wrong_is_counted() -> None:
    assert judge(sent(0, 1, 2), [0, 2]).lost == 1
    assert judge(sent(0, 1, 2), [0, 1, 0, 1, 2]).doubled == 2
    assert judge(sent(0, 1, 2), [0, 1, 0, 1, 2]).reordered == 0, "a repetition is not counted again"
    assert judge(sent(0, 1, 2), [1, 0, 2]).reordered == 1
    assert judge(sent(0, aborted=(1,)), [0, 1]).aborted == 1
    assert judge(sent(0, count=1), [0, 1, -1]).unknown == 2
    assert str(judge(sent(*range(9)), [0])) == "1 records: 8 lost\n  lost: numbers 1, 2, 3, 4, 5 and 3 more"


def test_of_a_compacted_topic_the_newest_record_of_each_key_counts() -> None:
    def key(number: int) -> bytes:
        return key_of(COMPACTED, number)

    same = [number for number in range(200) if key(number) == key(0)]
    assert len(same) > 2
    all_sent = sent(*same, count=1000)
    assert judge(all_sent, same[-1:], key).clean
    assert judge(all_sent, same[:1], key).lost == 1
    assert judge(all_sent, [same[0], same[-1]], key).clean
    newer = same[-1] + same[1]  # in doubt
    assert key(newer) == key(0)
    assert judge(all_sent, [newer], key).clean
    assert judge(all_sent, [same[-1], same[-1]], key).doubled == 1


def test_a_partition_is_silent_if_only_the_source_has_new_records() -> None:
    moving, silent, idle = ("t", 0), ("t", 1), ("t", 2)
    recovery = Recovery(100.0, dict.fromkeys((moving, silent, idle), 10), {moving: 5, silent: 5, idle: 5})
    recovery.see(101.0, {moving: 11, silent: 11, idle: 10}, {moving: 6, silent: 5, idle: 5}, ready=True)
    assert recovery.pending() == [silent, idle]
    assert recovery.recovered == {moving: 1.0}
    assert recovery.silent(161.0) == []
    assert recovery.silent(161.1) == [silent]
    recovery.see(170.0, {silent: 30, idle: 12}, {silent: 7, idle: 6}, ready=True)
    assert recovery.pending() == []
    assert recovery.took == 70.0


def test_the_start_of_twinlog_does_not_count() -> None:
    tp = ("t", 0)
    recovery = Recovery(0.0, {tp: 1}, {tp: 1})
    recovery.see(1.0, {tp: 2}, {}, ready=True)
    recovery.see(50.0, {tp: 2}, {}, ready=False)
    recovery.see(80.0, {tp: 2}, {}, ready=True)
    assert recovery.silent(140.0) == []
    assert recovery.silent(140.1) == [tp]


def samples(pss: list[int], descriptors: list[int], instance: int = 1) -> list[Sample]:
    return [
        Sample(instance, 60.0 + 5 * index, memory * 1_000_000, files)
        for index, (memory, files) in enumerate(zip(pss, descriptors, strict=True))
    ]


def test_growth_is_that_of_the_instance_that_ran_longest() -> None:
    assert growth([]) is None
    assert growth(samples([900] * 5, [100] * 5)) is None
    steady = growth(samples([900, 950, 910] * 10, [300, 340, 310] * 10) + samples([2000] * 12, [9] * 12, instance=2))
    assert steady is not None
    assert (steady.instance, steady.findings) == (1, [])
    growing = growth(samples([900 + 20 * i for i in range(30)], [300 + 10 * i for i in range(30)]))
    assert growing is not None
    assert growing.findings == [
        "memory grew from 990 to 1390 MB within 145 s (instance 1)",
        "file descriptors grew from 345 to 545 within 145 s (instance 1)",
    ]


def test_a_report_states_seed_faults_records_and_findings() -> None:
    report = Report(7, "make soak", 600.0)
    report.injected = [
        Injected(1, "broker killed (us)", "kill -9 of us broker 1", 1.0, 12.0),
        Injected(2, "broker killed (us)", "kill -9 of us broker 2", 30.0, 4.0),
        Injected(3, "JVM killed", "", 50.0, skipped="twinlog has no JVM yet"),
    ]
    report.topics = [TopicResult("soak-none", 3, 1000, 1000, 1000)]
    assert report.exit_code == 0
    text = as_text(report)
    assert "soak: 2 faults of 1 kinds in 10 minutes, seed 7" in text
    assert "not possible at that moment: JVM killed: twinlog has no JVM yet" in text
    assert "No findings: 1,000 records on the target, none lost, doubled or reordered." in text
    assert "| broker killed (us) | 2 | 8, 12 |" in as_markdown(report)
    report.findings.append("soak-none-1: silent")
    assert report.exit_code == FINDINGS
    assert "FINDING: soak-none-1: silent" in as_text(report)
    assert "- soak-none-1: silent" in as_markdown(report)
    assert json.loads(as_json(report))["by_kind"] == {"broker killed (us)": 2}
