"""A folder for Spark, swept away by the next run if this one could not."""

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from twinlog.errors import SparkError

_SCRATCH: Final = "twinlog-run-"
_OWNED: Final = "owned"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder for Spark. It stays when Spark failed, for its log; and after kill -9, until the next run sweeps it."""
    for file in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*/{_OWNED}"):
        with contextlib.suppress(OSError), file.open() as owned:
            fcntl.flock(owned, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while its owner lives
            shutil.rmtree(file.parent, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_SCRATCH))
    with (folder / "new").open("w") as owned:
        fcntl.flock(owned, fcntl.LOCK_EX)
        (folder / "new").rename(folder / _OWNED)
        try:
            yield folder
        except SparkError:
            (folder / _OWNED).unlink()
            raise
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)
