"""Incremental tables and feeds: a client sends the version it has and gets only the rows that changed since."""

import secrets
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Sequence[Any]


def boot() -> str:
    """A random id per process: version tokens of an earlier process are invalid."""
    return secrets.token_hex(4)


@dataclass(slots=True)
class Table:
    """Rows by key, with the version in which each last changed."""

    boot: str
    columns: Sequence[str]
    _rows: dict[Hashable, tuple[int, Row]] = field(default_factory=dict)
    _version: int = 0
    _last_removal: int = 0  # clients with an older version get all rows

    def put(self, rows: Mapping[Hashable, Row]) -> None:
        """Replaces all rows."""
        self.change(rows, [key for key in self._rows if key not in rows])

    def change(self, rows: Mapping[Hashable, Row], gone: Sequence[Hashable] = ()) -> None:
        """Updates these rows (some may be unchanged) and removes `gone`; all others stay."""
        version = self._version + 1
        known = self._rows
        if gone:
            removed = set(gone)
            known = {key: each for key, each in known.items() if key not in removed}
            self._last_removal = version
        changed = {key: (version, row) for key, row in rows.items() if key not in known or known[key][1] != row}
        if gone or changed:
            known.update(changed)
            self._rows, self._version = known, version

    def since(self, token: str) -> dict[str, Any]:
        version = _number(token, self.boot)
        full = version is None or version < self._last_removal or version > self._version
        rows = [row for at, row in self._rows.values() if full or at > (version or 0)]
        return {
            "version": f"{self.boot}.{self._version}",
            "full": full,
            "columns": self.columns,
            "rows": rows,
        }


@dataclass(slots=True)
class Feed:
    """A sequence of items, such as events, collected from sources that keep only their newest."""

    boot: str
    limit: int
    _items: deque[tuple[int, dict[str, Any]]] = field(init=False)
    _seen: dict[str, list[Any]] = field(default_factory=dict)
    _last: int = 0

    def __post_init__(self) -> None:
        self._items = deque(maxlen=self.limit)

    def put(self, source: str, items: Iterable[Any], render: Callable[[Any], dict[str, Any]]) -> None:
        """`items`: all that the source has now; those added by an earlier call are recognized by identity."""
        current = list(items)
        known = {id(each) for each in self._seen.get(source, ())}
        for item in current:
            if id(item) not in known:
                self._last += 1
                self._items.append((self._last, render(item)))
        self._seen[source] = current  # references keep their ids from being reused

    def retain(self, sources: Iterable[str]) -> None:
        """Forgets all sources but these."""
        retained = set(sources)
        self._seen = {source: items for source, items in self._seen.items() if source in retained}

    def since(self, token: str) -> dict[str, Any]:
        known = _number(token, self.boot)
        items = [item for at, item in self._items if known is None or at > known]
        return {"version": f"{self.boot}.{self._last}", "full": known is None, "items": items}


def _number(token: str, boot: str) -> int | None:
    """The version in a token; None if another process issued it."""
    name, _, number = token.partition(".")
    return int(number) if name == boot and number.isascii() and number.isdigit() and len(number) < 16 else None
