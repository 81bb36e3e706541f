from pathlib import Path

from twinlog.surface.metrics import mm2
from twinlog.surface.metrics.document import document
from twinlog.surface.metrics.exposition import SECTIONS

ROOT = Path(__file__).parents[3]


def test_the_page_is_made_from_the_table() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert page == document(), "run: .venv/bin/python -m twinlog.surface.metrics.document > docs/metrics.md"


def test_what_is_said_of_the_number_of_series_is_true() -> None:
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


def test_nothing_is_both_there_and_said_to_be_absent() -> None:
    assert {metric.name for section in SECTIONS for metric in section.metrics} & set(mm2.ABSENT) == set()
