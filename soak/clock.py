"""A clock that can be stepped, for Twinlog's processes only: libfaketime (Debian: `apt install libfaketime`)."""

import glob
import os
from pathlib import Path

_LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1")


def library() -> str | None:
    """`FAKETIME_LIBRARY` names another file."""
    named = os.environ.get("FAKETIME_LIBRARY")
    found = [named] if named else [path for pattern in _LIBRARIES for path in glob.glob(pattern)]  # noqa: PTH207
    return next((path for path in found if Path(path).is_file()), None)


class Clock:
    """Wall-clock time as `env` shows it to a process. Monotonic time is real: Java and Python measure with it."""

    def __init__(self, path: str, folder: Path) -> None:
        self._file = folder / "clock"
        self.env = {
            "LD_PRELOAD": path,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_CACHE_DURATION": "1",
        }
        self.step(0)

    def step(self, seconds: float) -> None:
        """From real time, forwards or backwards."""
        changed = self._file.with_suffix(".new")
        changed.write_text(f"{seconds:+.0f}\n")
        changed.replace(self._file)
