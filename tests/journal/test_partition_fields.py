"""What tasks report and what observers keep are the fields of the table."""

import typing
from dataclasses import fields

from twinlog.journal.messages import Report
from twinlog.journal.partition_fields import (
    CLI,
    COUNTER_NAMES,
    COUNTERS,
    FIELDS,
    PAGE,
    REPORT,
    SNAPSHOT,
    fields_in,
)
from twinlog.model import TopicPartition
from twinlog.replicate.partition import Counters, Partition
from twinlog.replicate.progress import report_of
from twinlog.status.partition import PartitionStatus


def reporting() -> Partition:
    """A partition that has everything to report."""
    p = Partition(TopicPartition("orders", 3), TopicPartition("us.orders", 3), until=9)
    p.source.high_watermark, p.source.last_stable = 9, 4
    p.report.counters = Counters(**dict.fromkeys(COUNTER_NAMES, 1))
    p.report.latencies, p.report.ages = [1, 2.0, 2.0, 2.0], [1, 2.0, 2.0, 2.0]
    p.report.error = "refused"
    return p


def test_no_name_occurs_twice() -> None:
    names = [each.name for each in (*FIELDS, *COUNTERS)]
    assert len(names) == len(set(names))
    assert len({each.metric for each in COUNTERS}) == len(COUNTERS)


def test_a_task_reports_the_fields_of_the_table() -> None:
    report = report_of(reporting())
    assert report.keys() == {*(each.name for each in fields_in(REPORT)), *COUNTER_NAMES}
    for each in fields_in(REPORT):
        assert isinstance(report[each.name], each.kind), each.name


def test_a_task_counts_the_counters_of_the_table() -> None:
    assert tuple(each.name for each in fields(Counters)) == COUNTER_NAMES
    report = report_of(Partition(TopicPartition("orders", 3), TopicPartition("us.orders", 3)))
    assert report.keys() & set(COUNTER_NAMES) == {"records", "bytes", "batches"}, "the others only if they are not 0"


def test_a_report_with_text_instead_of_a_number_is_skipped() -> None:
    report = report_of(reporting())
    numbers = {each.name for each in fields_in(REPORT) if each.kind in {int, float}} | set(COUNTER_NAMES)
    assert {"position", "latency_ms", "lost"} <= numbers
    for name in report:
        encoded = Report("run", 1, 0, 0, 1, {"orders-3": report | {name: "7"}}, []).encode()
        text_allowed = name not in numbers | {"latency", "age"}
        assert (Report.decode(encoded) is not None) == text_allowed, name


def test_an_observer_has_the_fields_of_the_table_with_their_types() -> None:
    kept = typing.get_type_hints(PartitionStatus)
    computed_by_views = {"level", "waits", "executor"}
    for each in fields_in(SNAPSHOT | CLI | PAGE):
        if each.name in computed_by_views:
            continue
        if each.name in kept:
            found = kept[each.name]
        else:
            assert SNAPSHOT not in each.outputs, f"{each.name} is computed"
            found = typing.get_type_hints(getattr(PartitionStatus, each.name).fget)["return"]
        assert found == (each.kind | None if each.optional else each.kind), each.name


def test_plain_fields_of_an_observer_are_in_snapshots() -> None:
    of_the_observer = {"changed_at"}
    plain = {
        name
        for name, kind in typing.get_type_hints(PartitionStatus).items()
        if kind in {str, int, float, int | None, float | None}
    }
    assert plain - of_the_observer == {each.name for each in fields_in(SNAPSHOT)}
