"""docs/metrics.md, from the table of metrics: `python -m twinlog.surface.metrics.document > docs/metrics.md`."""

import sys
from collections.abc import Iterable
from typing import Any

from twinlog.surface.metrics import mm2, own
from twinlog.surface.metrics.table import Section

_HEAD = """\
# Metrics

Made from the code's own table by `python -m twinlog.surface.metrics.document`; a test keeps it true.

`twinlog run --port 8083` and `twinlog serve` answer `GET /metrics` in Prometheus's text format 0.0.4, compressed
where that is asked for. Two families stand side by side: Twinlog's own names, and those that MirrorMaker 2 has behind
Strimzi's rules for the JMX exporter, so that dashboards made for MM2 go on working.
`GET /metrics?name[]=twinlog_lag_records` gives only what is named; the parameter may be repeated.

Alerts and a dashboard that use them are in [monitoring](../monitoring/README.md).

- All series are of this moment: a topic or a group that is no longer there has none.
- A counter never sinks while the process lives, whatever becomes of tasks, epochs and runs.
- Where there is no value there is no series; MM2's windows (`_min`, `_max`, `_avg`) are NaN instead, as MM2 has it.
- For each partition there are 16 series, for each topic 9, for each group and partition 10.
"""

_MM2 = """\
## MirrorMaker 2's names

In MM2's legacy format with the `source` label, as 4.x has it. A label value with characters other than letters, digits,
`_`, `-`, `.`, `%` and blanks stands in quotes that belong to it, because it does so in JMX: the connector
`us->eu.MirrorSourceConnector` has the label value `"us->eu.MirrorSourceConnector"`, quotes and all, and dashboards
match it with `connector=~"\\".*SourceConnector\\""`.
"""

_ABSENT = """\
## What Strimzi's dashboard asks for and does not get

The panels of these stay empty. All others of `strimzi-kafka-mirror-maker-2.json` work when the scrape adds the labels
that its queries select by (`strimzi_io_kind`, `strimzi_io_cluster`, `kubernetes_pod_name`, `namespace`), as
`monitoring/prometheus/prometheus.yml` shows.

| metric | why |
|---|---|
"""


def document() -> str:
    return "\n".join(
        [
            _HEAD,
            "## Twinlog's names\n",
            *_sections(own.SECTIONS),
            _MM2,
            *_sections(mm2.SECTIONS),
            _ABSENT + "".join(f"| `{name}` | {why} |\n" for name, why in mm2.ABSENT.items()),
        ]
    )


def _sections(sections: Iterable[Section[Any]]) -> Iterable[str]:
    for section in sections:
        yield f"### {section.title}\n"
        if section.about:
            yield f"{section.about}\n"
        shown = ", ".join(f"`{label}`" for label in section.labels)
        yield f"Labels: {shown}.\n" if shown else "No labels.\n"
        noted = any(metric.note for metric in section.metrics)
        rows = [
            "| metric | type | meaning |" + (" not quite as in MM2 |" if noted else ""),
            "|---|---|---|" + "---|" * noted,
        ]
        for metric in section.metrics:
            note = f" {_cell(metric.note)} |" if noted else ""
            rows.append(f"| `{metric.name}` | {metric.kind} | {_cell(metric.help)} |{note}")
        yield "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(document())
