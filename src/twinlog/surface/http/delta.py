"""What has changed since somebody last asked, so that a page with 10,000 rows gets only the few that moved."""

import secrets
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Sequence[Any]


def boot() -> str:
    """Another one at each start: tokens of an earlier process mean nothing to us."""
    return secrets.token_hex(4)


@dataclass(slots=True)
class Table:
    """Rows by key. Whoever brings the token of an earlier answer gets what changed after it."""

    boot: str
    columns: Sequence[str]
    _rows: dict[Hashable, tuple[int, Row]] = field(default_factory=dict)  # with the version that brought them
    _version: int = 0
    _whole: int = 0  # a row vanished with this version: who has an older one starts anew

    def put(self, rows: Mapping[Hashable, Row]) -> None:
        """All rows that there are now."""
        self.change(rows, [key for key in self._rows if key not in rows])

    def change(self, rows: Mapping[Hashable, Row], gone: Sequence[Hashable] = ()) -> None:
        """Some rows, of which some may be as they were; the others stay."""
        version = self._version + 1
        known = self._rows
        if gone:
            left = set(gone)
            known = {key: each for key, each in known.items() if key not in left}
            self._whole = version
        changed = {key: (version, row) for key, row in rows.items() if key not in known or known[key][1] != row}
        if gone or changed:
            known.update(changed)
            self._rows, self._version = known, version

    def since(self, token: str) -> dict[str, Any]:
        version = _number(token, self.boot)
        full = version is None or version < self._whole or version > self._version
        rows = [row for at, row in self._rows.values() if full or at > (version or 0)]
        return {
            "version": f"{self.boot}.{self._version}",
            "full": full,
            "columns": self.columns,
            "rows": rows,
        }


@dataclass(slots=True)
class Feed:
    """Things that happen one after the other, of which every source keeps the newest only."""

    boot: str
    limit: int
    _items: deque[tuple[int, dict[str, Any]]] = field(init=False)
    _seen: dict[str, list[Any]] = field(default_factory=dict)
    _last: int = 0

    def __post_init__(self) -> None:
        self._items = deque(maxlen=self.limit)

    def put(self, source: str, things: Iterable[Any], render: Callable[[Any], dict[str, Any]]) -> None:
        """`things`: what the source keeps now; those that it kept before are known by identity."""
        kept = list(things)
        known = {id(each) for each in self._seen.get(source, ())}
        for thing in kept:
            if id(thing) not in known:
                self._last += 1
                self._items.append((self._last, render(thing)))
        self._seen[source] = kept  # held, so that no other thing gets their identity

    def forget(self, sources: Iterable[str]) -> None:
        """All but these are gone."""
        keep = set(sources)
        self._seen = {source: kept for source, kept in self._seen.items() if source in keep}

    def since(self, token: str) -> dict[str, Any]:
        known = _number(token, self.boot)
        items = [item for at, item in self._items if known is None or at > known]
        return {"version": f"{self.boot}.{self._last}", "full": known is None, "items": items}


def _number(token: str, boot: str) -> int | None:
    """The version in a token, unless somebody else gave it out."""
    name, _, number = token.partition(".")
    return int(number) if name == boot and number.isascii() and number.isdigit() and len(number) < 16 else None
