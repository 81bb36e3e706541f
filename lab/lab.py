"""The lab: real Kafka clusters in a temporary folder, removed at the end.

    with Lab() as lab:
        us, eu = lab.clusters("us", "eu")

After a failure the logs are kept, without the data, and a note on the error names their folder. A lab whose process is
killed leaves nothing behind (see process.py).
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lab.broker import ClusterSpec
from lab.cluster import START_SECONDS, Cluster
from lab.errors import LabError
from lab.java_process import SMALL
from lab.mirrormaker import ConnectWorker, MirrorMaker
from lab.process import Process, cleanup
from lab.waiting import until

_open: "weakref.WeakSet[Lab]" = weakref.WeakSet()


def open_labs() -> list["Lab"]:
    """The labs of this process that are not closed; for reports of test failures."""
    return list(_open)


class Lab:
    """`TWINLOG_LAB_DIR` is the parent of the lab's folder (default: the system's temporary folder)."""

    def __init__(self) -> None:
        parent = os.environ.get("TWINLOG_LAB_DIR")
        if parent:
            Path(parent).mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="twinlog-lab-", dir=parent)).resolve()
        cleanup.add_folder(self.folder)
        self._clusters: list[Cluster] = []
        self._mirrormakers: list[MirrorMaker | ConnectWorker] = []
        _open.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        failed = isinstance(error, Exception)  # not Ctrl-C
        self.close(keep_logs=failed)
        if failed and error is not None and self.folder.exists():
            error.add_note(f"logs of the lab: {self.folder}")

    def cluster(self, name: str, **options: Any) -> Cluster:
        """One cluster; the keywords are those of ClusterSpec."""
        return self.clusters(ClusterSpec(name=name, **options))[0]

    def clusters(self, *names_or_specs: str | ClusterSpec) -> list[Cluster]:
        """Starts them in parallel and returns when all of them serve requests."""
        specs = [ClusterSpec(name=each) if isinstance(each, str) else each for each in names_or_specs]
        new: list[Cluster] = []
        for spec in specs:
            if any(spec.name == each.name for each in self._clusters):
                raise LabError(f"cluster {spec.name} already exists in this lab: choose another name")
            cluster = Cluster(spec, self.folder / spec.name)
            self._clusters.append(cluster)
            new.append(cluster)
        for cluster in new:
            cluster.launch()
        waiting = list(new)

        def all_ready() -> bool:
            waiting[:] = [cluster for cluster in waiting if not cluster.is_ready()]
            return not waiting

        def failed() -> str | None:
            return next(filter(None, (cluster.start_failure() for cluster in waiting)), None)

        def logs() -> str:
            return "".join(cluster.logs() for cluster in waiting)

        names = ", ".join(spec.name for spec in specs)
        until(all_ready, f"starting {names}", seconds=START_SECONDS, failed=failed, logs=logs)
        for cluster in new:
            cluster.prepare()
        return new

    def discard(self, cluster: Cluster) -> None:
        """Stops a cluster before the lab is closed and removes its data and logs."""
        cluster.close()
        self._clusters.remove(cluster)
        shutil.rmtree(cluster.folder, ignore_errors=True)

    def mirror_maker(
        self, properties: Mapping[str, str], name: str = "mm2", flags: Sequence[str] = SMALL
    ) -> MirrorMaker:
        """Starts the real MM2 in dedicated mode; its `wait_until_running` waits for the connectors."""
        mirrormaker = MirrorMaker(properties, self._new_folder(name), name, flags)
        self._mirrormakers.append(mirrormaker)
        mirrormaker.start()
        return mirrormaker

    def connect_worker(self, properties: Mapping[str, str], name: str = "connect") -> ConnectWorker:
        """Starts a real Connect worker with MM2's connectors; returns when its REST API is up."""
        worker = ConnectWorker(properties, self._new_folder(name), name)
        self._mirrormakers.append(worker)
        worker.start()
        return worker

    @property
    def processes(self) -> list[Process]:
        clusters = [process for cluster in self._clusters for process in cluster.processes]
        return [*clusters, *(each.process for each in self._mirrormakers)]

    def close(self, *, keep_logs: bool = False) -> None:
        for each in self._mirrormakers:
            each.process.end()
        for cluster in self._clusters:
            cluster.close()
        _open.discard(self)
        if keep_logs:
            for cluster in self._clusters:
                cluster.remove_data()
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        cleanup.remove_folder(self.folder)

    def _new_folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder
