"""`twinlog run` with its own configuration file."""

from collections.abc import Mapping
from pathlib import Path

from lab.command import TwinlogCommand
from twinlog.config.properties import properties_text


class TwinlogRun(TwinlogCommand):
    def __init__(self, properties: Mapping[str, str], folder: Path, scratch: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "mm2.properties"
        self.file.write_text(properties_text(dict(properties)))
        super().__init__(["run", self.file], folder / "twinlog.log", scratch)

    @property
    def pid(self) -> int:
        return self.process.pid or 0

    def lines(self, count: int) -> list[str]:
        return self.process.tail(count).splitlines()
