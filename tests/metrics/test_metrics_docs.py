from pathlib import Path

from twinlog.metrics import mm2
from twinlog.metrics.exposition import SECTIONS
from twinlog.metrics.metrics_docs import document

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert page == document(), "run: .venv/bin/python -m twinlog.metrics.metrics_docs > docs/metrics.md"


def test_the_number_of_series_is_correct() -> None:
    per = dict.fromkeys(("partition", "topic", "group"), 0)
    for section in SECTIONS:
        own = set(section.labels)
        if "group" in own:
            per["group"] += len(section.metrics) * {"twinlog_group_lag_records": 2, "twinlog_group_offset": 3}.get(
                section.metrics[0].name, 1
            )
        elif "partition" in own:
            per["partition"] += len(section.metrics)
        elif "topic" in own:
            per["topic"] += len(section.metrics)
    numbers = (
        "for each partition there are {partition} series, for each topic {topic}, for each group and partition {group}"
    )
    assert numbers.format_map(per) in document().lower()


def test_absent_metrics_are_absent() -> None:
    assert {metric.name for section in SECTIONS for metric in section.metrics} & set(mm2.ABSENT) == set()
