"""`twinlog doctor`: what was found at the clusters, as text and as JSON."""

import contextlib
import json
import textwrap
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from twinlog.config import Config, FlowConfig
from twinlog.doctor.examine import examine
from twinlog.doctor.findings import STATUSES, Finding, failed
from twinlog.errors import ConfigError
from twinlog.surface.numbers import counted
from twinlog.surface.progress import Progress

_WIDTH = 118
_PLACE = 32  # characters that a place may take beside what is said of it
_EXIT = 1


def doctor(
    config: Config, flows: Sequence[FlowConfig], clusters: Collection[str], log: Path | None = None
) -> list[Finding]:
    """Of these flows and their clusters; of one of these clusters only, where some are named."""
    unknown = [alias for alias in clusters if alias not in config.clusters]
    if unknown:
        known = ", ".join(config.clusters)
        raise ConfigError(f"--cluster {unknown[0]}: no such cluster in {', '.join(config.files)}; there is: {known}")
    if len(flows) < len(config.flows):
        used = dict.fromkeys(alias for flow in flows for alias in (flow.flow.source, flow.flow.target))
    else:
        used = dict.fromkeys(config.clusters)
    wanted = [alias for alias in used if not clusters or alias in clusters]
    with Progress("twinlog doctor") as progress, contextlib.ExitStack() as stack:
        lines = stack.enter_context(log.open(errors="replace")) if log else None
        return examine(config, flows, wanted, progress.step, lines)


def exit_code(findings: Iterable[Finding]) -> int:
    return _EXIT if failed(findings) else 0


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
    """A place that is longer than its column has a line of its own; commands stay in one piece, to be copied."""
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
        if each.advice.startswith("kafka-"):
            yield f"{margin}-> {each.advice}"
        elif each.advice:
            yield from textwrap.wrap(
                each.advice, _WIDTH, initial_indent=f"{margin}-> ", subsequent_indent=f"{margin}   ",
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip


def _total(findings: Sequence[Finding]) -> str:
    words = [
        counted(number, status)
        for status in STATUSES[:-1]
        if (number := sum(each.status == status for each in findings))
    ]
    return f"{', '.join(words) or 'All is well'}. Nothing was changed."
