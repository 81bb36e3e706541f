"""Connectors as files, from which Spark's processes load a flow's configuration like any other.

Every change creates a new folder that only this user can read; folders that no flow uses any more are removed.
References to secrets (`${file:...}`) stay references in the files, and Spark's plan contains only the paths.
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
from twinlog.connect.connector_limits import exceeds_limits
from twinlog.connect.file_access import Access, access_problem
from twinlog.connect.topic_records import STARTED, STOPPED, Connectors
from twinlog.errors import TwinlogError
from twinlog.mm2.plugins import KEYS, not_allowed

_MAX_FILE_NAME: Final = 200
WORKER: Final = "worker.properties"


@dataclass(frozen=True, slots=True)
class FlowRole:
    """The flow that a connector belongs to, and its role in it."""

    flow: FlowConfig
    role: str  # source, checkpoint, heartbeat


@dataclass(frozen=True, slots=True)
class ConnectorFileSet:
    paths: tuple[str, ...] = ()
    flows: tuple[FlowConfig, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)  # connectors that cannot be run, and why

    @property
    def flow_roles(self) -> dict[str, FlowRole]:
        return {
            connector.settings.name: FlowRole(flow, role)
            for flow in self.flows
            for role, connector in flow.connectors.items()
        }


class ConnectorFiles:
    def __init__(self, folder: Path, worker: bytes, plugins: Collection[str] = ()) -> None:
        """`worker`: content of the worker file. `plugins`: the Python classes that connectors may use."""
        self._plugins = plugins
        self._folder = folder
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._worker = worker
        self._numbers = itertools.count(1)
        self._running: dict[str, str] = {}  # connector -> file, of those in the newest set that can run

    def make(self, connectors: Connectors) -> ConnectorFileSet:
        """Writes the files of all connectors. An invalid connector is left out and does not affect the others."""
        folder = self._folder / str(next(self._numbers))
        folder.mkdir(mode=0o700)
        worker = folder / WORKER
        _write(worker, self._worker)
        files: dict[str, str] = {}
        failed: dict[str, str] = {}
        for name, config in connectors.configs.items():
            path = folder / file_name(name)
            _write(path, _content(name, config, connectors.state(name)))
            if reason := self._problem([str(worker), str(path)], config):
                failed[name] = reason
            else:
                files[name] = str(path)
        config_of_all = self._load_compatible(str(worker), files, failed)
        self._running = files
        return ConnectorFileSet((str(worker), *files.values()), config_of_all.flows if config_of_all else (), failed)

    def problem(self, name: str, config: Mapping[str, str | None]) -> str:
        """Why this connector cannot run, alone or with those that already run; empty if it can."""
        folder = self._folder / f"try-{next(self._numbers)}"
        folder.mkdir(mode=0o700)
        try:
            worker, path = folder / WORKER, folder / file_name(name)
            _write(worker, self._worker)
            _write(path, _content(name, config, STARTED))
            if reason := self._problem([str(worker), str(path)], config):
                return reason
            others = [str(worker), *(file for each, file in self._running.items() if each != name)]
            combined = _config_or_reason(lambda: load([*others, str(path)]))
            if isinstance(combined, Config):
                return ""
            # An error that the others have without the new connector is not its fault.
            return combined if isinstance(_config_or_reason(lambda: load(others)), Config) else ""
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def remove_unused(self, used: Collection[str]) -> None:
        """Removes folders without any of these paths, if older than theirs: a newer one may not be in use yet."""
        in_use = {Path(path).parent for path in used}
        newest = max((int(folder.name) for folder in in_use), default=0)
        for folder in self._folder.iterdir():
            if folder not in in_use and folder.name.isdigit() and int(folder.name) < newest:
                shutil.rmtree(folder, ignore_errors=True)

    def _problem(self, paths: list[str], config: Mapping[str, str | None]) -> str:
        kind = config.get("connector.class") or ""
        if connector_kind(kind.strip()) is None:
            return f"connector.class = {kind!r}: not supported; only MM2's three connectors run here"
        if reason := exceeds_limits(config):
            return reason
        found = _config_or_reason(lambda: load(paths))
        return found if isinstance(found, str) else self._not_allowed(found)

    def _not_allowed(self, config: Config) -> str:
        """Connectors must not choose which code runs (mm2/plugins.py) or which files are read (file_access.py)."""
        for flow in config.flows:
            for connector in flow.connectors.values():
                named = {key: getattr(connector.settings, key.replace(".", "_"), "") for key in KEYS}
                reason = not_allowed(named, self._plugins)
                if reason := reason or access_problem(connector.values, Access.of(flow.worker.settings), WORKER):
                    return reason
        return ""

    def _load_compatible(self, worker: str, files: dict[str, str], failed: dict[str, str]) -> Config | None:
        """Loads all files; a connector that conflicts with the ones before it moves to `failed`."""
        if not files:
            return None
        found = _config_or_reason(lambda: load([worker, *files.values()]))
        if isinstance(found, Config):
            return found
        compatible: dict[str, str] = {}
        last: Config | None = None
        for name, path in list(files.items()):
            tried = [worker, *compatible.values(), path]
            found = _config_or_reason(lambda tried=tried: load(tried))  # type: ignore[misc]
            if isinstance(found, Config):
                compatible[name], last = path, found
            else:
                failed[name] = found
                del files[name]
        return last


def file_name(connector: str) -> str:
    quoted = quote(connector, safe=" ")
    if len(quoted) > _MAX_FILE_NAME:
        quoted = f"{quoted[: _MAX_FILE_NAME - 20]}-{hashlib.sha256(connector.encode()).hexdigest()[:16]}"
    return f"{quoted}.json"


def _content(name: str, config: Mapping[str, str | None], state: str) -> bytes:
    settings = {key: text for key, text in config.items() if text is not None}
    initial = "RUNNING" if state == STARTED else state
    assert initial in {"RUNNING", "PAUSED", STOPPED}
    return json.dumps({"name": name, "initial_state": initial, "config": {**settings, "name": name}}).encode()


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _config_or_reason(read: Callable[[], Config]) -> Config | str:
    """The configuration, or why it cannot be loaded: in one line, without the names of the generated files."""
    try:
        return read()
    except InvalidConfigError as error:
        return "; ".join(problem.text for problem in error.problems if problem.level == "error")
    except (TwinlogError, OSError) as error:
        return str(error)
