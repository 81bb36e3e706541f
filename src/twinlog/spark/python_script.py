"""What embedded Spark runs as Python: a script that runs this interpreter, or lets the driver's threads do the work.

The interpreter runs without modules from the working directory (-P), and without Spark's jar on its path, whose list of
files would take 8 MB in each process. For stream readers and for planning the driver has threads (driver_threads.py):
the script then waits until Spark ends it or exits. If there are no such threads, daemons for what runs at the end of
every epoch import all modules before they fork; others run once per query and would only hold memory.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import Final

from twinlog.spark import driver_threads

_SCRIPT: Final = """\
#!/bin/sh
path= IFS=:
set -f
for each in $PYTHONPATH; do
  case "$each" in "" | *.jar) ;; *) path="${{path:+$path:}}$each" ;; esac
done
unset IFS
export PYTHONPATH="$path"
wait_for_spark() {{
  while read -r _; do :; done
  exit 0
}}
if [ -p {pipe} ]; then
  case "$PYTHON_UNIX_DOMAIN_ENABLED $*" in
{daemons}
  *"-m pyspark.sql.streaming.python_streaming_source_runner")
    address=${{PYTHON_WORKER_FACTORY_SOCK_PATH:-$PYTHON_WORKER_FACTORY_PORT}}
    printf '%s\\treader\\t%s\\t%s\\n' "$$" "$address" "$PYTHON_WORKER_FACTORY_SECRET" > {pipe}
    wait_for_spark ;;
  esac
fi
case "$*" in
"-m pyspark.daemon pyspark.sql.worker.write_into_data_source" | \\
"-m pyspark.daemon pyspark.sql.worker.python_streaming_sink_runner")
  set -- -m twinlog.spark.worker_daemon "$3" ;;
"-m pyspark.sql.streaming.python_streaming_source_runner")
  set -- -m twinlog.spark.parent_watchdog "$2" ;;
esac
exec {python} -P "$@"
"""
_DAEMON: Final = """\
  [Tt]"rue -m pyspark.daemon pyspark.sql.worker.{module}")
    printf '%s\\tdaemon\\t%s\\n' "$$" "$3" > {pipe}
    printf '{announcement}'
    wait_for_spark ;;"""


def write(folder: Path) -> str:
    """The script's path; the interpreter's if the folder cannot hold programs."""
    file = folder / "python"
    pipe = shlex.quote(str(driver_threads.pipe(folder)))
    daemons = "\n".join(
        _DAEMON.format(module=module, pipe=pipe, announcement=_announcement(path))
        for module, path in driver_threads.sockets(folder).items()
    )
    file.write_text(_SCRIPT.format(python=shlex.quote(sys.executable), pipe=pipe, daemons=daemons))
    file.chmod(0o700)
    return str(file) if os.access(file, os.X_OK) else sys.executable  # some file systems are mounted noexec


def _announcement(path: Path) -> str:
    """What a daemon tells Spark, for the shell's printf: the length of the path of its socket in four bytes, and it."""
    text = os.fsencode(path)
    return "".join(f"\\{byte:03o}" for byte in (*len(text).to_bytes(4, "big"), *text))
