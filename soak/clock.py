"""A wall clock that can be stepped, for Twinlog's processes only: a preloaded library (stepped_clock.c)."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path

from lab.errors import LabError

_SOURCE = Path(__file__).with_name("stepped_clock.c")


class Clock:
    """For processes with `env`. Raises a LabError with the reason if the library cannot be built here."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if sys.platform != "linux" or compiler is None:
            raise LabError("needs Linux and a C compiler (Debian: apt install gcc libc6-dev)")
        library, self._file = folder / "stepped_clock.so", folder / "clock"
        command: list[str | Path] = [
            compiler,
            "-shared",
            "-fPIC",
            "-O2",
            "-Wall",
            "-Werror",
            "-o",
            library,
            _SOURCE,
            "-ldl",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LabError(f"cannot compile {_SOURCE.name}: {done.stderr.strip()}")
        self._file.write_bytes(struct.pack("=q", 0))
        self.env = {"LD_PRELOAD": str(library), "SOAK_CLOCK": str(self._file)}

    def step(self, seconds: int) -> None:
        """From real time, forwards or backwards."""
        with self._file.open("r+b") as file:  # not replaced: it is mapped
            file.write(struct.pack("=q", seconds))
