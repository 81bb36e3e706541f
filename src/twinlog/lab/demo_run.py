"""`twinlog run` as a user runs it: a process of its own, started with a file, stopped with SIGTERM."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path

from twinlog.config.properties import properties_text
from twinlog.errors import LabError
from twinlog.lab.process import Process

STOP_SECONDS = 30.0  # more than it may take; then it is killed, and that is an error


class TwinlogRun:
    """`scratch` is where it may keep what it needs while it runs: in a lab's folder, which is swept after kill -9."""

    def __init__(self, properties: Mapping[str, str], folder: Path, scratch: Path, name: str = "twinlog run") -> None:
        for each in (folder, scratch):
            each.mkdir(parents=True, exist_ok=True)
        self._scratch = scratch
        self.file = folder / "mm2.properties"
        self.file.write_text(properties_text(dict(properties)))
        self.process = Process(name, folder / "twinlog.log")

    def start(self) -> None:
        command = Path(sys.executable).with_name("twinlog")
        self.process.launch([str(command), "run", str(self.file)], env={"TMPDIR": str(self._scratch)})

    @property
    def pid(self) -> int:
        return self.process.pid or 0

    def check(self) -> None:
        """Raises what it said if it has ended by itself."""
        if reason := self.process.last_words():
            raise LabError(reason)

    def lines(self, count: int) -> list[str]:
        return self.process.tail(count).splitlines()

    def stop(self) -> float:
        """Seconds that it took to end after SIGTERM; an error if it had to be killed or did not end well."""
        self.check()
        began = time.monotonic()
        self.process.stop(STOP_SECONDS)
        if self.process.exit_code:
            raise LabError(
                f"{self.process.name} did not end well: exit code {self.process.exit_code}, after SIGTERM"
                f"{self.process.quote()}"
            )
        return time.monotonic() - began

    def kill(self) -> None:
        """Its Spark sees that it is gone, and goes, too."""
        self.process.kill()
