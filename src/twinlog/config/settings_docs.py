"""Generates docs/config.md from the table of settings: `python -m twinlog.config.settings_docs > docs/config.md`."""

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from twinlog.config.clients import CLIENT_KEYS, CLIENT_LETTERS, CONNECTION_KEYS
from twinlog.config.setting import Row, rows
from twinlog.config.settings import (
    ALIASES,
    CONNECTORS,
    DROPPED,
    NO_INTERNAL_REST,
    NO_WORKER,
    SERVE_READS,
    WORKER_CLIENT_KEYS,
    WORKER_WITHOUT_EFFECT,
    CommonSettings,
    TopicSettings,
    WorkerSettings,
)

_NO_EFFECT = "accepted, no effect"
_HEAD = """\
# Settings

Generated from the code by `python -m twinlog.config.settings_docs`. Names, types and defaults are those of MirrorMaker 2 in
Apache Kafka 4.3. `twinlog config show CONFIG` shows the effective values and where they come from.

## Where to write a setting

In a dedicated-mode file (`mm2.properties`):

| form | applies to |
|---|---|
| `clusters = us, eu` | the aliases of the clusters |
| `us.<connection key>` | every client of `us` |
| `us.consumer.<key>`, `us.producer.<key>`, `us.admin.<key>` | that type of client; overrides `us->eu.consumer.<key>` |
| `us->eu.<connector key>` | that flow |
| `<connector key>` | every flow without its own value; keys marked (flow) are ignored here, as in MM2 |
| `eu.<worker key>` | the worker of every flow into `eu` (top-level storage, converter and task keys override it) |

There is a flow for every ordered pair of clusters. It replicates if `us->eu.enabled = true`, and emits heartbeats unless
`emit.heartbeats.enabled = false`. A `#` after a value is part of the value, and a `\\` in a regular expression must be
doubled.

In the JSON of a Connect connector and in `config` of a Strimzi resource, connector keys are written without a prefix.

Regular expressions are Java's; a construct without an equivalent in Python is an error.

## Output of `config show --json`

| field | meaning |
|---|---|
| `files` | the files |
| `clusters.<alias>` | the connection settings of each cluster |
| `flows[].flow`, `source`, `target` | `us->eu`, and its two ends |
| `flows[].replicates`, `emits_heartbeats` | what the flow does |
| `flows[].connectors.<class>.settings` | every setting of the tables below, typed, with its effective value |
| `flows[].connectors.<class>.config` | the strings that MM2 would pass to the connector |
| `flows[].connectors.<class>.clients.<client>` | the strings of each Kafka client; Kafka's defaults apply to the others |
| `flows[].connectors.<class>.state` | `running`, `paused` or `stopped` |
| `flows[].worker.settings`, `.config` | the same two for the Connect worker on the target |
| `problems[]` | `level` (`error`, `warning`, `note`), `where` (file and line), `text`; the only field if there are errors |

Each setting is `{"value": ..., "from": {"kind": "file", "file": ..., "line": ..., "key": ..., "note": ...}}`; the kind is
`file`, `default` or `derived`. `"no_effect": ...` is the reason if a setting has no effect. Secrets are `********`, and values of config providers are shown as their `${...}`.

## Settings of flows

In the tables, a default of `-` means not set, `empty` an empty list or string. Settings marked *accepted, no effect* may remain
in a file that is shared with MM2; `twinlog config show` has a note for each that is set.
"""


def document() -> str:
    common, shared = rows(CommonSettings), _without(rows(TopicSettings), CommonSettings)
    parts = [_HEAD, "### All connectors\n", _settings(common)]
    parts += ["### MirrorSourceConnector and MirrorCheckpointConnector\n", _settings(shared)]
    for name, settings in CONNECTORS.items():
        parts += [f"### {name}\n", f"{settings.__doc__}\n", _settings(_without(rows(settings), TopicSettings))]
    parts += ["## Settings of the worker\n", f"{_one_line(WorkerSettings.__doc__)}\n", _settings(rows(WorkerSettings))]
    parts += [
        "### Without effect\n",
        f"Accepted, no effect: {NO_WORKER}.\n",
        _keys(WORKER_WITHOUT_EFFECT - SERVE_READS),
        "Accepted, no effect: they apply to the worker's own clients. Write `us.consumer.<key>` and similar instead.\n",
        _keys(WORKER_CLIENT_KEYS),
        "Read by `twinlog serve` only:\n",
        _keys(SERVE_READS),
        f"In a dedicated-mode file, `dedicated.mode.enable.internal.rest`: accepted, no effect: {NO_INTERNAL_REST}.\n",
        "## Old names\n",
        "| old | read as |\n|---|---|\n" + "".join(f"| `{old}` | `{new}` |\n" for old, new in ALIASES.items()),
        "Removed settings: " + "; ".join(f"`{key}` ({why})" for key, why in DROPPED.items()) + ".\n",
        "## Clients\n",
        "Connection keys may be written as `us.<key>`; the others require the client: `us.consumer.<key>`.\n",
        "".join(_clients()),
    ]
    return "\n".join(parts)


def _without(table: Iterable[Row], settings: type[CommonSettings]) -> list[Row]:
    """The rows that `settings` does not have."""
    known = {row.key.name for row in rows(settings)}
    return [row for row in table if row.key.name not in known]


def _keys(names: Iterable[str]) -> str:
    return "\n".join(f"- `{key}`" for key in sorted(names)) + "\n"


def _settings(table: Iterable[Row]) -> str:
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for row in table:
        level = "" if row.key.declared else " (flow)"
        default = "required" if row.required else _shown(row.default)
        doc = f"{row.key.doc} **{_NO_EFFECT}:** {row.key.no_effect}." if row.key.no_effect else row.key.doc
        lines.append(f"| `{row.key.name}`{level} | {row.key.kind} | {default} | {_cell(doc)} |")
    return "\n".join(lines) + "\n"


def _clients() -> Iterator[str]:
    yield "| key | client | type | default | in Twinlog |\n|---|---|---|---|---|\n"
    names = sorted({name for keys in CLIENT_KEYS.values() for name in keys})
    for name in sorted(names, key=lambda n: (n not in CONNECTION_KEYS, n)):
        owners = [client for client, letter in CLIENT_LETTERS.items() if name in CLIENT_KEYS[letter]]
        key = CLIENT_KEYS[CLIENT_LETTERS[owners[0]]][name]
        where = "connection" if name in CONNECTION_KEYS else ", ".join(owners)
        defaults = dict.fromkeys(_shown(CLIENT_KEYS[CLIENT_LETTERS[owner]][name].default) for owner in owners)
        here = f"**{_NO_EFFECT}:** {key.no_effect}" if key.no_effect else key.note
        yield f"| `{name}` | {where} | {key.kind} | {' / '.join(defaults)} | {_cell(here)} |\n"


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
