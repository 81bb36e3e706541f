"""Problems of a configuration, collected so that all are reported at once: file and line, value, action."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from twinlog.config.value_types import Expected
from twinlog.config.values import Origin, Value
from twinlog.errors import ConfigError

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Problem:
    level: Level
    where: str  # "mm2.properties:12", or the file alone
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.level}: {self.text}"


class InvalidConfigError(ConfigError):
    """All errors of a configuration, one line each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class Problems:
    """Collects problems while a configuration is read."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    @property
    def found(self) -> list[Problem]:
        """Sorted by file and line."""
        return sorted(self._found, key=lambda problem: _position(problem.where))

    @property
    def errors(self) -> int:
        return sum(problem.level == "error" for problem in self._found)

    def error(self, where: Origin | str, text: str) -> None:
        self._add("error", where, text)

    def warn(self, where: Origin | str, text: str) -> None:
        self._add("warning", where, text)

    def note(self, where: Origin | str, text: str) -> None:
        self._add("note", where, text)

    def value(self, value: Value, complaint: str) -> None:
        """An invalid value: the key as the operator wrote it, the value masked if it is a secret."""
        if value.shown != value.text and not isinstance(complaint, Expected):
            complaint = "invalid value"  # the complaint may quote the secret
        hint = " (a # after a value is part of the value)" if " #" in value.shown else ""
        self.error(value.origin, f"{value.origin.key or value.key} = {value.shown!r}: {complaint}{hint}")

    def raise_if_any(self) -> None:
        if self.errors:
            raise InvalidConfigError(self.found)

    def _add(self, level: Level, where: Origin | str, text: str) -> None:
        position = where if isinstance(where, str) else f"{where.file}:{where.line}" if where.file else str(where)
        problem = Problem(level, position, text)
        if problem not in self._found:  # three connectors share most keys
            self._found.append(problem)


def _position(where: str) -> tuple[str, int]:
    file, _, line = where.rpartition(":")
    return (file, int(line)) if line.isdigit() else (where, 0)


def did_you_mean(word: str, known: Iterable[str], *, short: bool = False) -> str:
    """` (did you mean x?)`, or empty without a close match. Short words need less similarity."""
    near = difflib.get_close_matches(word, sorted(set(known)), n=1, cutoff=0.5 if short else 0.8)
    return f" (did you mean {near[0]}?)" if near else ""
