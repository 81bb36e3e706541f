"""`twinlog compare`: the differences from MM2 that apply to a configuration and its clusters."""

import json
from collections.abc import Iterable, Sequence

from twinlog.inspect.mm2_differences import DIFFERENCES, Applied, applied
from twinlog.inspect.plan import FlowPlan
from twinlog.text import counted

_INDENT = "    "


def compare(plans: Iterable[FlowPlan]) -> list[tuple[FlowPlan, list[Applied]]]:
    return [(plan, applied(plan)) for plan in plans]


def as_json(found: Iterable[tuple[FlowPlan, Sequence[Applied]]]) -> str:
    flows = [
        {
            "flow": str(plan.flow),
            "differences": [
                {
                    "id": each.difference.id,
                    "subject": each.difference.subject,
                    "mm2": each.difference.mm2,
                    "twinlog": each.difference.twinlog,
                    "as_mm2": each.difference.as_mm2,
                    "detail": each.detail,
                }
                for each in some
            ],
        }
        for plan, some in found
    ]
    return json.dumps({"flows": flows}, indent=2, ensure_ascii=False)


def as_text(found: Iterable[tuple[FlowPlan, Sequence[Applied]]]) -> str:
    parts = []
    for plan, some in found:
        title = f"{plan.flow}: {counted(len(some), 'difference')} from MM2 of {len(DIFFERENCES)} apply"
        parts.append("\n".join([title, "=" * len(title), *(line for each in some for line in _lines(each))]))
    return "\n\n".join([*parts, "Nothing was changed."])


def _lines(applied: Applied) -> list[str]:
    each = applied.difference
    lines = [f"  {each.subject}", f"{_INDENT}MM2:      {each.mm2}", f"{_INDENT}Twinlog:  {each.twinlog}"]
    lines += [f"{_INDENT}as MM2:   {each.as_mm2}"] if each.as_mm2 else []
    lines += [f"{_INDENT}here:     {applied.detail}"] if applied.detail else []
    return [line.replace("`", "") for line in lines]
