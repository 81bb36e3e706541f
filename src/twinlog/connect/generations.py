"""Connectors as files: Spark's processes read a flow's configuration by themselves, and by the same rules as always.

Every change makes a new folder, which nobody else may read; one that no flow uses any more is removed. References to
secrets (`${file:...}`) stay references in it, and nothing of it but the paths is in Spark's plan.
"""

import hashlib
import itertools
import json
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

from twinlog.config import Config, InvalidConfigError, load
from twinlog.config.connect import connector_kind
from twinlog.config.flows import FlowConfig
from twinlog.connect.topics import STARTED, STOPPED, Connectors
from twinlog.errors import TwinlogError

_LONGEST: Final = 200  # letters in the name of a file
WORKER: Final = "worker.properties"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a connector belongs."""

    flow: FlowConfig
    role: str  # source, checkpoint, heartbeat


@dataclass(frozen=True, slots=True)
class Generation:
    paths: tuple[str, ...] = ()
    flows: tuple[FlowConfig, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)  # connectors that cannot be run, and why

    @property
    def places(self) -> dict[str, Place]:
        return {
            connector.settings.name: Place(flow, role)
            for flow in self.flows
            for role, connector in flow.connectors.items()
        }


class Generations:
    def __init__(self, folder: Path, worker: bytes) -> None:
        """`worker` is the content of the worker's file."""
        self._folder = folder
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._worker = worker
        self._numbers = itertools.count(1)

    def make(self, connectors: Connectors) -> Generation:
        """One that is wrong is left out, and never keeps the others from running."""
        folder = self._folder / str(next(self._numbers))
        folder.mkdir(mode=0o700)
        worker = folder / WORKER
        _write(worker, self._worker)
        files: dict[str, str] = {}
        failed: dict[str, str] = {}
        for name, config in connectors.configs.items():
            path = folder / file_name(name)
            _write(path, _content(name, config, connectors.state(name)))
            if reason := self._wrong([str(worker), str(path)], config):
                failed[name] = reason
            else:
                files[name] = str(path)
        together = self._together(str(worker), files, failed)
        return Generation((str(worker), *files.values()), together.flows if together else (), failed)

    def wrong(self, name: str, config: Mapping[str, str]) -> str:
        """Why such a connector could not be run; empty if it could."""
        folder = self._folder / f"try-{next(self._numbers)}"
        folder.mkdir(mode=0o700)
        try:
            worker, path = folder / WORKER, folder / file_name(name)
            _write(worker, self._worker)
            _write(path, _content(name, config, STARTED))
            return self._wrong([str(worker), str(path)], config)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def sweep(self, used: Collection[str]) -> None:
        """Removes what none of these paths is in, and what is older than they are: a newer one may be in the making."""
        kept = {Path(path).parent for path in used}
        newest = max((int(folder.name) for folder in kept), default=0)
        for folder in self._folder.iterdir():
            if folder not in kept and folder.name.isdigit() and int(folder.name) < newest:
                shutil.rmtree(folder, ignore_errors=True)

    def _wrong(self, paths: list[str], config: Mapping[str, str]) -> str:
        kind = config.get("connector.class", "")
        if connector_kind(kind.strip()) is None:
            return f"connector.class = {kind!r}: only MM2's three connectors run here"
        found = _reason(lambda: load(paths))
        return found if isinstance(found, str) else ""

    def _together(self, worker: str, files: dict[str, str], failed: dict[str, str]) -> Config | None:
        """All that are good by themselves; those that do not go with the ones before them are left out."""
        if not files:
            return None
        found = _reason(lambda: load([worker, *files.values()]))
        if isinstance(found, Config):
            return found
        good: dict[str, str] = {}
        last: Config | None = None
        for name, path in list(files.items()):
            tried = [worker, *good.values(), path]
            found = _reason(lambda tried=tried: load(tried))  # type: ignore[misc]
            if isinstance(found, Config):
                good[name], last = path, found
            else:
                failed[name] = found
                del files[name]
        return last


def file_name(connector: str) -> str:
    quoted = quote(connector, safe=" ")
    if len(quoted) > _LONGEST:
        quoted = f"{quoted[: _LONGEST - 20]}-{hashlib.sha256(connector.encode()).hexdigest()[:16]}"
    return f"{quoted}.json"


def _content(name: str, config: Mapping[str, str], state: str) -> bytes:
    initial = "RUNNING" if state == STARTED else state
    assert initial in {"RUNNING", "PAUSED", STOPPED}
    return json.dumps({"name": name, "initial_state": initial, "config": {**config, "name": name}}).encode()


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _reason(read: Callable[[], Config]) -> Config | str:
    """What was read, or why it cannot be: in one line, without the names of our own files."""
    try:
        return read()
    except InvalidConfigError as error:
        return "; ".join(problem.text for problem in error.problems if problem.level == "error")
    except (TwinlogError, OSError) as error:
        return str(error)
