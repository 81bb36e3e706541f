"""Faults of brokers: killed, suspended, restarted one after the other, without space, with a read-only disk."""

import time

from lab.errors import LabError
from lab.waiting import until
from soak.disk import Disk
from soak.fault import Fault

_DISK_SECONDS = 20.0  # for the broker to notice


class BrokerKilled(Fault):
    """By SIGKILL; restarted at the end."""

    count = 1

    def begin(self) -> str:
        brokers = self.cluster.brokers
        first = self.planned.choice % len(brokers)
        self._killed = [brokers[(first + more) % len(brokers)] for more in range(self.count)]
        for broker in self._killed:
            broker.kill()
        return f"kill -9 of {self.cluster.name} broker {', '.join(str(broker.id) for broker in self._killed)}"

    def end(self) -> None:
        for broker in self._killed:
            broker.launch()
        cluster = self.cluster
        until(cluster.is_ready, f"restarting {cluster.name}", seconds=120, failed=cluster.start_failure)


class TwoBrokersKilled(BrokerKilled):
    """The cluster has no controller quorum and too few replicas then."""

    count = 2


class BrokerSuspended(Fault):
    """For longer than its session of 4 s, in half of the cases: then its partitions get other leaders."""

    def begin(self) -> str:
        self._broker = self.planned.pick(self.cluster.brokers)
        self._broker.pause()
        return f"SIGSTOP of {self.cluster.name} broker {self._broker.id}"

    def end(self) -> None:
        self._broker.resume()


class RollingRestart(Fault):
    """All brokers, with controlled shutdowns, each when the one before serves again."""

    def begin(self) -> str:
        for broker in self.cluster.brokers:
            broker.restart()
        return f"rolling restart of {self.cluster.name}"


class _DiskFault(Fault):
    @property
    def disk(self) -> Disk:
        if self.stage.disk is None:
            raise LabError(f"{self.planned.kind}: not possible here")
        return self.stage.disk

    def restart(self) -> None:
        broker = self.disk.broker
        if broker.alive:
            broker.kill()
        broker.start()


class DiskFull(_DiskFault):
    """The broker stops by itself when a write fails; it is restarted when there is space again."""

    def begin(self) -> str:
        self.disk.fill()
        broker, began = self.disk.broker, time.monotonic()
        broker.process.wait(_DISK_SECONDS)
        ended = f"stopped after {time.monotonic() - began:.0f} s" if not broker.alive else "kept running"
        return f"disk of {self.cluster.name} broker {broker.id} full: the broker {ended}"

    def end(self) -> None:
        self.disk.empty()
        self.restart()


class DiskReadOnly(_DiskFault):
    """Found so when the broker starts again after kill -9, as after a file system error: it does not come up."""

    def begin(self) -> str:
        broker = self.disk.broker
        broker.kill()
        self.disk.set_read_only(True)
        broker.launch()
        return f"kill -9 of {self.cluster.name} broker {broker.id}, whose disk is then read-only"

    def end(self) -> None:
        self.disk.broker.kill()
        self.disk.set_read_only(False)
        self.restart()
