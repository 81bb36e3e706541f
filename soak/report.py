"""The report of a soak: as text, Markdown and JSON. Pure."""

import json
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

CLEAN, FINDINGS = 0, 3


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that was injected, or `skipped` with the reason."""

    number: int
    kind: str
    description: str
    at: float  # seconds since the start
    recovered: float | None = None  # seconds from its end until every partition had new records on the target
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class TopicResult:
    topic: str
    partitions: int
    acknowledged: int
    found: int  # by librdkafka
    equal: int  # by comparison of both logs
    wrong: int = 0  # lost, doubled, reordered, aborted, unknown


@dataclass(slots=True)
class Report:
    seed: int
    command: str
    seconds: float = 0.0
    injected: list[Injected] = field(default_factory=list)
    topics: list[TopicResult] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    instances: int = 0
    peak_pss: int = 0
    growth: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[Injected]:
        return [each for each in self.injected if not each.skipped]

    @property
    def exit_code(self) -> int:
        return FINDINGS if self.findings else CLEAN

    def by_kind(self) -> dict[str, int]:
        return dict(sorted(Counter(each.kind for each in self.faults).items()))

    def slowest(self, count: int = 3) -> list[Injected]:
        known = [each for each in self.faults if each.recovered is not None]
        return sorted(known, key=lambda each: -(each.recovered or 0))[:count]


def as_json(report: Report) -> str:
    return json.dumps({**asdict(report), "by_kind": report.by_kind(), "exit_code": report.exit_code}, indent=2) + "\n"


def as_text(report: Report) -> str:
    lines = [
        "",
        f"soak: {_count(report)}",
        *(f"  {kind}: {count}" for kind, count in report.by_kind().items()),
        *(f"  left out: {kind}: {reason}" for kind, reason in report.left_out.items()),
        *(f"  not possible at that moment: {each.kind}: {each.skipped}" for each in report.injected if each.skipped),
        "",
        *_table(_TOPIC_HEAD, [_topic_row(each) for each in report.topics]),
        "",
        *_facts(report),
        "",
        *(f"FINDING: {each}" for each in report.findings),
        _conclusion(report),
    ]
    return "\n".join(lines)


def as_markdown(report: Report) -> str:
    kinds = [[kind, str(count), _recovery(report, kind)] for kind, count in report.by_kind().items()]
    findings = [f"- {each.splitlines()[0]}" for each in report.findings] or ["None."]
    return "\n".join(
        [
            f"`{report.command}`: {_count(report)}. {_conclusion(report)}",
            "",
            *_markdown(["fault", "count", "seconds to recover: median, longest"], kinds),
            "",
            *_markdown(_TOPIC_HEAD, [_topic_row(each) for each in report.topics]),
            "",
            *(f"- {each}" for each in _facts(report)),
            *(f"- Left out: {kind}: {reason}" for kind, reason in report.left_out.items()),
            "",
            "Findings:",
            "",
            *findings,
            "",
        ]
    )


_TOPIC_HEAD = ["topic", "partitions", "acknowledged", "on the target", "equal", "wrong"]


def _topic_row(topic: TopicResult) -> list[str]:
    counts = (topic.partitions, topic.acknowledged, topic.found, topic.equal, topic.wrong)
    return [topic.topic, *(f"{count:,}" for count in counts)]


def _facts(report: Report) -> list[str]:
    facts = [f"instances of twinlog run: {report.instances}; highest memory: {report.peak_pss / 1e6:,.0f} MB (PSS)"]
    if report.growth:
        facts.append(report.growth)
    if slowest := report.slowest():
        text = ", ".join(f"{each.recovered:.0f} s ({each.kind})" for each in slowest)
        facts.append(f"slowest recoveries: {text}")
    return [*facts, *report.notes]


def _conclusion(report: Report) -> str:
    records = sum(topic.found for topic in report.topics)
    if report.findings:
        return f"{len(report.findings)} findings; {records:,} records on the target."
    return f"No findings: {records:,} records on the target, none lost, doubled or reordered."


def _count(report: Report) -> str:
    kinds = f"{len(report.faults)} faults of {len(report.by_kind())} kinds"
    return f"{kinds} in {_minutes(report.seconds)}, seed {report.seed}"


def _recovery(report: Report, kind: str) -> str:
    seconds = [each.recovered for each in report.faults if each.kind == kind and each.recovered is not None]
    return f"{statistics.median(seconds):.0f}, {max(seconds):.0f}" if seconds else ""


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} s"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "  " + "  ".join(cell.rjust(width) if index else cell.ljust(width) for index, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in (head, *rows))
    ]


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
