"""docs/config.md, from the table of settings: `python -m twinlog.config.document > docs/config.md`."""

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from twinlog.config.clients import CLIENT_KEYS, CLIENT_LETTERS, CONNECTION_KEYS
from twinlog.config.settings import (
    ALIASES,
    CONNECTORS,
    DROPPED,
    WORKER_WITHOUT_EFFECT,
    CommonSettings,
    WorkerSettings,
)
from twinlog.config.table import Row, rows

_HEAD = """\
# Settings

Made from the code's own table by `python -m twinlog.config.document`; a test keeps it true. Names, types and defaults
are those of MirrorMaker 2 in Apache Kafka 4.3. `twinlog config show CONFIG` tells which values are in effect, and why.

## Where a setting may be written

In a dedicated-mode file (`mm2.properties`):

| form | reaches |
|---|---|
| `clusters = us, eu` | names the clusters |
| `us.<connection key>` | every client that talks to `us` |
| `us.consumer.<key>`, `us.producer.<key>`, `us.admin.<key>` | that kind of client; beats `us->eu.consumer.<key>` |
| `us->eu.<connector key>` | that flow |
| `<connector key>` | every flow that says nothing else; those marked (flow) are ignored here, as in MM2 |
| `eu.<worker key>` | the worker of every flow into `eu` (storage, converter and task keys at the top level win) |

A flow exists for every ordered pair of clusters; it replicates where `us->eu.enabled = true`, and emits heartbeats
unless `emit.heartbeats.enabled = false`. A `#` behind a value belongs to the value, and a `\\` in a regular expression
must be doubled.

For a Connect connector's JSON, and in `config` of a Strimzi resource, the connector keys are written as they stand.

Regular expressions are Java's; where Python cannot keep the meaning of a construct it is refused by name.

## What `config show --json` says

| field | meaning |
|---|---|
| `files` | what was read |
| `clusters.<alias>` | the connection settings of each cluster |
| `flows[].flow`, `source`, `target` | `us->eu`, and its two ends |
| `flows[].replicates`, `emits_heartbeats` | what the flow does |
| `flows[].connectors.<class>.settings` | every setting of the tables below, typed, with the value in effect |
| `flows[].connectors.<class>.config` | the map of texts that MM2 would give to the connector |
| `flows[].connectors.<class>.clients.<client>` | what each Kafka client would be given; Kafka's defaults hold for the rest |
| `flows[].connectors.<class>.state` | `running`, `paused` or `stopped` |
| `flows[].worker.settings`, `.config` | the same two for the Connect worker on the target |
| `problems[]` | `level` (`error`, `warning`, `note`), `where` (file and line), `text`; all there is if there are errors |

Each setting is `{"value": ..., "from": {"kind": "file", "file": ..., "line": ..., "key": ..., "note": ...}}`; the kind is
`file`, `default` or `derived`. Secrets are `********`, and what a config provider gave is shown as its `${...}`.

## Settings of flows

In the tables, a default of `-` means that nothing is set, `empty` an empty list or text.
"""


def document() -> str:
    common = rows(CommonSettings)
    parts = [_HEAD, "### All connectors\n", _settings(common)]
    for name, settings in CONNECTORS.items():
        own = [row for row in rows(settings) if row.key.name not in {shared.key.name for shared in common}]
        parts += [f"### {name}\n", f"{settings.__doc__}\n", _settings(own)]
    parts += ["## Settings of the worker\n", f"{_one_line(WorkerSettings.__doc__)}\n", _settings(rows(WorkerSettings))]
    parts += [
        "### Without effect\n",
        "Read and ignored, because Twinlog runs no Connect worker:\n",
        "\n".join(f"- `{key}`" for key in sorted(WORKER_WITHOUT_EFFECT)) + "\n",
        "## Old names\n",
        "| old | read as |\n|---|---|\n" + "".join(f"| `{old}` | `{new}` |\n" for old, new in ALIASES.items()),
        "No longer settings: " + "; ".join(f"`{key}` ({why})" for key, why in DROPPED.items()) + ".\n",
        "## Clients\n",
        "Connection keys may be written as `us.<key>`; the others need the client's name: `us.consumer.<key>`.\n",
        "".join(_clients()),
    ]
    return "\n".join(parts)


def _settings(table: Iterable[Row]) -> str:
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for row in table:
        level = "" if row.key.declared else " (flow)"
        default = "required" if row.required else _shown(row.default)
        lines.append(f"| `{row.key.name}`{level} | {row.key.kind} | {default} | {_cell(row.key.doc)} |")
    return "\n".join(lines) + "\n"


def _clients() -> Iterator[str]:
    yield "| key | client | type | default |\n|---|---|---|---|\n"
    names = sorted({name for keys in CLIENT_KEYS.values() for name in keys})
    for name in sorted(names, key=lambda n: (n not in CONNECTION_KEYS, n)):
        owners = [client for client, letter in CLIENT_LETTERS.items() if name in CLIENT_KEYS[letter]]
        key = CLIENT_KEYS[CLIENT_LETTERS[owners[0]]][name]
        where = "connection" if name in CONNECTION_KEYS else ", ".join(owners)
        defaults = dict.fromkeys(_shown(CLIENT_KEYS[CLIENT_LETTERS[owner]][name].default) for owner in owners)
        yield f"| `{name}` | {where} | {key.kind} | {' / '.join(defaults)} |\n"


def _shown(default: Any) -> str:
    if default is None:
        return "-"
    if isinstance(default, tuple):
        return "<br>".join(f"`{_cell(item)}`" for item in default) or "empty"
    return (
        f"`{_cell(str(default).lower() if isinstance(default, bool) else str(default))}`" if default != "" else "empty"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _one_line(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").strip()


if __name__ == "__main__":
    sys.stdout.write(document())
