"""Where things made once per machine are kept: jars, archives of Java classes, Spark's overlay."""

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """For every clone and every run: TWINLOG_CACHE, or the platform's place for caches."""
    if own := os.environ.get("TWINLOG_CACHE"):
        return Path(own)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "twinlog"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "twinlog"
