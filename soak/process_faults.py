"""Faults of Twinlog's own processes: killed, suspended, terminated, run twice, with a changed password or clock."""

import signal
import time

from lab.errors import LabError
from soak.fault import Fault, UnexpectedError
from soak.plan import SIDES
from soak.replicator import Instance, name, send

_SECOND_SECONDS = 240.0  # for one of two instances to end
_CLOCK_SECONDS = 600  # clocks of Twinlog and brokers may differ by 15 minutes, see docs/guarantees.md
_PRODUCER_STEPS = (-3 * 86_400, -86_400, -3600, -60, 60, 3000)  # brokers refuse more than an hour ahead


class _InstanceFault(Fault):
    @property
    def instance(self) -> Instance:
        return self.stage.replicator.current


class DriverKilled(_InstanceFault):
    """Its JVM and its Python processes must end by themselves."""

    def begin(self) -> str:
        replicator = self.stage.replicator
        with replicator.held():
            replicator.expect_exit(str(self.planned.kind))
            pids = self.instance.processes()
            send(pids[:1], signal.SIGKILL)
            self.instance.process.wait(30)
            replicator.watch_left_over(pids[1:])
        return "kill -9 of the driver"


class JvmKilled(_InstanceFault):
    def begin(self) -> str:
        if not (jvm := self.instance.jvm()):
            raise LabError("twinlog has no JVM yet")
        self.stage.replicator.expect_exit(str(self.planned.kind))
        send([jvm], signal.SIGKILL)
        return "kill -9 of Spark's JVM"


class WorkerKilled(_InstanceFault):
    """Any of Spark's Python processes: tasks, the daemon that forks them, the stream reader."""

    def begin(self) -> str:
        if not (workers := self.instance.workers()):
            raise LabError("twinlog has no Python process of Spark yet")
        chosen = self.planned.pick(workers)
        text = _short(chosen)
        send([chosen], signal.SIGKILL)
        return f"kill -9 of {text}"


class _Suspended(_InstanceFault):
    _pids: tuple[int, ...] = ()

    def suspend(self, pids: list[int]) -> None:
        if not pids:
            raise LabError("twinlog has no such process yet")
        self._pids = tuple(pids)
        send(pids, signal.SIGSTOP)

    def end(self) -> None:
        send(reversed(self._pids), signal.SIGCONT)


class DriverSuspended(_Suspended):
    def begin(self) -> str:
        self.suspend([self.instance.pid])
        return "SIGSTOP of the driver"


class JvmSuspended(_Suspended):
    def begin(self) -> str:
        self.suspend([pid for pid in [self.instance.jvm()] if pid])
        return "SIGSTOP of Spark's JVM"


class WorkerSuspended(_Suspended):
    def begin(self) -> str:
        workers = self.instance.workers()
        chosen = [self.planned.pick(workers)] if workers else []
        self.suspend(chosen)
        return f"SIGSTOP of {_short(chosen[0])}"


class AllSuspended(_Suspended):
    def begin(self) -> str:
        pids = self.instance.processes()
        self.suspend(pids)
        return f"SIGSTOP of all {len(pids)} processes"


class Terminated(_InstanceFault):
    def begin(self) -> str:
        try:
            seconds = self.stage.replicator.restart()
        except LabError as error:
            raise UnexpectedError(str(error)) from error
        return f"SIGTERM (ended after {seconds:.1f} s) and restart"


class SecondInstance(_InstanceFault):
    """It takes over, and the first one ends; or it is refused, if instances have contended for the flow recently."""

    def begin(self) -> str:
        replicator = self.stage.replicator
        with replicator.held():
            first, second = replicator.current, replicator.launch_second()
            deadline = time.monotonic() + _SECOND_SECONDS
            while first.process.alive and second.process.alive and time.monotonic() < deadline:
                time.sleep(0.2)
            if first.process.alive and second.process.alive:
                second.kill()
                raise UnexpectedError(f"two instances still run after {_SECOND_SECONDS:.0f} s")
            if first.process.alive:
                return f"second instance: refused (exit code {second.process.exit_code})"
            replicator.expect_exit(str(self.planned.kind))
            replicator.replace(second)
            return f"second instance: took over; the first ended with exit code {first.process.exit_code}"


class PasswordChanged(_InstanceFault):
    """In the cluster first: new connections fail. Then in Twinlog's file, which it reads at its start."""

    def begin(self) -> str:
        side = self.planned.pick(SIDES)
        self._write = self.stage.change_password(side, f"secret-{self.planned.number}")
        if side in self.stage.proxies:
            self.stage.proxies[side].cut()
        return f"password of twinlog changed in {side}"

    def end(self) -> None:
        if write := getattr(self, "_write", None):
            write()
            replicator = self.stage.replicator
            replicator.expect_exit(str(self.planned.kind))
            if replicator.current.process.alive:
                replicator.restart()


class TwinlogClock(Fault):
    """Steps back at the end."""

    def begin(self) -> str:
        if self.stage.clock is None:
            raise LabError(f"{self.planned.kind}: not possible here")
        seconds = self.planned.choice % (2 * _CLOCK_SECONDS) - _CLOCK_SECONDS
        self.stage.clock.step(seconds)
        return f"clock of all Twinlog processes stepped by {seconds:+d} s"

    def end(self) -> None:
        if self.stage.clock is not None:
            self.stage.clock.step(0)


class ProducerClock(Fault):
    """Records get timestamps of another hour or day: target brokers expire producers by them."""

    def begin(self) -> str:
        seconds = self.planned.pick(_PRODUCER_STEPS)
        self.stage.traffic.clock = seconds
        return f"clock of the producers stepped by {seconds:+d} s"

    def end(self) -> None:
        self.stage.traffic.clock = 0.0


def _short(pid: int) -> str:
    words = name(pid).split()
    module = next((word for word in reversed(words) if not word.startswith("-")), "a process")
    return f"Python process {module} ({pid})"
