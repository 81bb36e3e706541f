"""`twinlog doctor`: the findings, as text and as JSON."""

import contextlib
import json
import textwrap
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from twinlog.cli.progress import Progress
from twinlog.config import Config, FlowConfig
from twinlog.errors import ConfigError
from twinlog.inspect.doctor.examine import examine
from twinlog.inspect.doctor.findings import STATUSES, Command, Finding, failed
from twinlog.text import counted

_WIDTH = 118
_PLACE = 32  # maximum width of the column with the location


def doctor(
    config: Config, flows: Sequence[FlowConfig], clusters: Collection[str], log: Path | None = None
) -> list[Finding]:
    """Checks these flows and their clusters; with `clusters`, only those."""
    unknown = [alias for alias in clusters if alias not in config.clusters]
    if unknown:
        known = ", ".join(config.clusters)
        raise ConfigError(f"--cluster {unknown[0]}: no such cluster in {', '.join(config.files)}; configured: {known}")
    if len(flows) < len(config.flows):
        used = dict.fromkeys(alias for flow in flows for alias in (flow.flow.source, flow.flow.target))
    else:
        used = dict.fromkeys(config.clusters)
    wanted = [alias for alias in used if not clusters or alias in clusters]
    with Progress("twinlog doctor") as progress, contextlib.ExitStack() as stack:
        lines = stack.enter_context(log.open(errors="replace")) if log else None
        return examine(config, flows, wanted, progress.step, lines)


def exit_code(findings: Iterable[Finding]) -> int:
    return 1 if failed(findings) else 0


def as_json(findings: Sequence[Finding]) -> str:
    counts = {status: sum(each.status == status for each in findings) for status in STATUSES}
    return json.dumps({"counts": counts, "findings": [asdict(each) for each in findings]}, indent=2, ensure_ascii=False)


def as_text(findings: Sequence[Finding]) -> str:
    scopes: dict[str, list[Finding]] = {}
    for each in findings:
        scopes.setdefault(each.scope, []).append(each)
    parts = ["\n".join([scope, *_lines(some)]) for scope, some in scopes.items()]
    return "\n\n".join([*parts, _total(findings)])


def _lines(findings: Sequence[Finding]) -> Iterable[str]:
    """A location that is wider than its column has a line of its own; commands are not wrapped, to be copied."""
    places = [each.where or each.check for each in findings]
    wide = max([len(place) for place in places if len(place) <= _PLACE], default=_PLACE)
    margin = " " * (2 + 9 + wide + 2)
    for place, each in zip(places, findings, strict=True):
        head = f"  {each.status:<9}{place:<{wide}}  "
        if len(place) > wide:
            yield head.rstrip()
            head = margin
        yield from textwrap.wrap(
            each.found, _WIDTH, initial_indent=head, subsequent_indent=margin, break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
        if isinstance(each.advice, Command):
            yield f"{margin}-> {each.advice}"
        elif each.advice:
            yield from textwrap.wrap(
                each.advice, _WIDTH, initial_indent=f"{margin}-> ", subsequent_indent=f"{margin}   ",
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip


def _total(findings: Sequence[Finding]) -> str:
    counts = [
        counted(number, status)
        for status in STATUSES[:-1]
        if (number := sum(each.status == status for each in findings))
    ]
    return f"{', '.join(counts) or 'No problems found'}. Nothing was changed."
