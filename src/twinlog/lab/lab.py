"""The lab: several real clusters at once in one folder, gone without a trace at the end.

    with Lab() as lab:
        us, eu = lab.clusters("us", "eu")

After a failure the logs are kept, the data is not, and the error says where they are. A lab whose process is killed
leaves nothing at all (see process.py).
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from twinlog.errors import LabError
from twinlog.lab.broker import ClusterSpec
from twinlog.lab.cluster import START_SECONDS, Cluster
from twinlog.lab.java_process import SMALL
from twinlog.lab.peer import ConnectWorker, MirrorMaker
from twinlog.lab.process import Process, guardian
from twinlog.lab.waiting import until

_open: "weakref.WeakSet[Lab]" = weakref.WeakSet()


def open_labs() -> list["Lab"]:
    """Every lab of this process that is not closed; for reports of what happened in them."""
    return list(_open)


class Lab:
    """`TWINLOG_LAB_DIR` names the folder in which a lab makes its own; else it is the system's place for such."""

    def __init__(self) -> None:
        home = os.environ.get("TWINLOG_LAB_DIR")
        if home:
            Path(home).mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="twinlog-lab-", dir=home)).resolve()
        guardian.hold_folder(self.folder)
        self._clusters: list[Cluster] = []
        self._peers: list[MirrorMaker | ConnectWorker] = []
        _open.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        failed = isinstance(error, Exception)  # Ctrl-C is no failure
        self.close(keep_logs=failed)
        if failed and error is not None and self.folder.exists():
            error.add_note(f"the lab's logs are kept in {self.folder}")

    def cluster(self, name: str, **wanted: Any) -> Cluster:
        """One cluster; the keywords are ClusterSpec's."""
        return self.clusters(ClusterSpec(name=name, **wanted))[0]

    def clusters(self, *wanted: str | ClusterSpec) -> list[Cluster]:
        """Starts them all at once and returns when all of them serve."""
        specs = [ClusterSpec(name=each) if isinstance(each, str) else each for each in wanted]
        new: list[Cluster] = []
        for spec in specs:
            if any(spec.name == each.name for each in self._clusters):
                raise LabError(f"there is a cluster {spec.name} in this lab already")
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
            return next(filter(None, (cluster.why_not() for cluster in waiting)), None)

        def logs() -> str:
            return "".join(cluster.logs() for cluster in waiting)

        names = ", ".join(spec.name for spec in specs)
        until(all_ready, f"starting {names}", seconds=START_SECONDS, failed=failed, logs=logs)
        for cluster in new:
            cluster.prepare()
        return new

    def discard(self, cluster: Cluster) -> None:
        """Ends one cluster before the lab ends, with its data and its logs."""
        cluster.close()
        self._clusters.remove(cluster)
        shutil.rmtree(cluster.folder, ignore_errors=True)

    def mirror_maker(
        self, properties: Mapping[str, str], name: str = "mm2", flags: Sequence[str] = SMALL
    ) -> MirrorMaker:
        """The real MM2 in dedicated mode, started; `wait_until_running` tells when its connectors run."""
        peer = MirrorMaker(properties, self._new_folder(name), name, flags)
        self._peers.append(peer)
        peer.start()
        return peer

    def connect_worker(self, properties: Mapping[str, str], name: str = "connect") -> ConnectWorker:
        """A real Connect worker with MM2's connectors on its class path; returns when its REST interface answers."""
        peer = ConnectWorker(properties, self._new_folder(name), name)
        self._peers.append(peer)
        peer.start()
        return peer

    @property
    def processes(self) -> list[Process]:
        brokers = [broker.process for cluster in self._clusters for broker in cluster.brokers]
        return [*brokers, *(peer.process for peer in self._peers)]

    def close(self, *, keep_logs: bool = False) -> None:
        for peer in self._peers:
            peer.process.end()
        for cluster in self._clusters:
            cluster.close()
        _open.discard(self)
        if keep_logs:
            for cluster in self._clusters:
                cluster.remove_data()
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        guardian.drop_folder(self.folder)

    def _new_folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder
