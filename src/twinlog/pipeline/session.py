"""Starts and stops Spark: by default one that is embedded in this process' family, small, quiet and on loopback only.

The family: this process (the driver), its JVM, and Spark's Python processes, which are children of the JVM.
* Ctrl-C reaches only this process: the JVM leads a session of its own, and all others are in it.
* When this process dies, however it dies, the pipe to the JVM's standard input ends; the JVM exits, the pipes to the
  Python daemons end, and those end their workers. (For readers see `leash`.)

With a master, executors are elsewhere, and only the driver's part is ours. A program that `spark-submit` has started is
the child of a JVM that is there already (`SUBMITTED`): that one is used, and its settings are the submitter's.
"""

import contextlib
import logging
import os
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import Popen
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, accumulators
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from twinlog import java
from twinlog.cache import cache_folder
from twinlog.errors import SparkError
from twinlog.pipeline import spark_home

_LOG = "spark.log"  # what Spark says
_ERRORS = "spark.err"  # what its JVM and its Python processes say beside
_FLAGS = "spark.driver.extraJavaOptions"
_GATEWAY = "PYSPARK_GATEWAY_PORT"  # set by spark-submit: where its JVM listens
SUBMITTED = "spark-submit"  # in place of a master's address: the Spark that has started this program
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"

# For any master.
_GENERAL = {
    "spark.app.name": "twinlog",
    "spark.scheduler.mode": "FAIR",  # flows share the slots; first come, first served would starve the second flow
    "spark.speculation": "false",  # a second attempt beside a slow one would relay everything twice
    "spark.python.worker.reuse": "true",
    "spark.python.authenticate.socketTimeout": "60s",  # Spark's 15 s end a query where a machine is busy
    "spark.python.daemon.module": "twinlog.pipeline.worker_daemon",
    "spark.sql.streaming.pollingDelay": "1ms",  # our reader waits by itself; Spark's sleep only lengthens the gap
    "spark.sql.adaptive.enabled": "false",  # not for streams; saves a warning for each query
    "spark.ui.showConsoleProgress": "false",
}

# Where driver, executors and Python processes are one family on one machine.
_EMBEDDED = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",  # Spark refuses to start below 450 MB; its live objects take 50
    "spark.python.unix.domain.socket.enabled": "true",  # TCP's delayed acknowledgements cost 45 ms a stage
    "spark.ui.enabled": "false",
}

# Where executors are processes of their own, on other machines.
_CLUSTER = {
    "spark.executor.memory": "512m",  # for the JVM, which only hands claims to Python; Spark refuses less than 450 MB
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    # A machine that is gone without a word is missed after 30 s; by Spark's defaults after two to three minutes.
    "spark.executor.heartbeatInterval": "5s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "30s",
    "spark.network.timeoutInterval": "5s",
}

# For checkpoints on a local disk: the usual ways fork some twenty processes (chmod, readlink) for every batch.
_LOCAL_CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}

# The JVM only plans and schedules: the smallest collector with a small young generation (which it fills, and so holds,
# whatever its size), and only the quick compiler.
_SMALL = (
    "-XX:+UseSerialGC", "-Xmn24m", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true",
    "-Xlog:disable", "-Xlog:all=error:stderr",  # no remarks about modules in incubation or archives that do not fit
)  # fmt: skip

_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""

# What Spark runs as Python: the same interpreter, but never with modules from the working directory (-P). For the
# workers of tasks there is a setting to name the daemon, but none for those two that Spark asks at every epoch's end
# (the others, asked once per query, would only hold memory); nor for the process of a stream's reader.
_PYTHON = """\
#!/bin/sh
case "$*" in
"-m pyspark.daemon pyspark.sql.worker.write_into_data_source" | \\
"-m pyspark.daemon pyspark.sql.worker.python_streaming_sink_runner")
  set -- -m twinlog.pipeline.worker_daemon "$3" ;;
"-m pyspark.sql.streaming.python_streaming_source_runner")
  set -- -m twinlog.pipeline.leash "$2" ;;
esac
exec {python} -P "$@"
"""


def start(
    master: str | None, slots: int, folder: Path, conf: Mapping[str, str], *, checkpoints: str | None = None
) -> SparkSession:
    """Starts Spark; what it has to say goes to `spark.log` in `folder`, where its scratch files are as well.

    Without a `master` Spark is embedded, with `slots` tasks at a time. `conf` wins over every setting made here, but
    Java's flags are added to ours. `checkpoints` is where queries keep theirs; None is a local disk.
    """
    folder = folder.resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if master == SUBMITTED:
        return _join(folder, conf, local=_is_local(checkpoints))
    embedded = master is None or master.startswith("local")
    settings = {
        "spark.master": master or f"local[{slots},4]",  # 4: a task whose worker dies is tried again
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),  # or the working directory gets one
        **_GENERAL,
        **(_EMBEDDED if embedded else _CLUSTER),
        **(_LOCAL_CHECKPOINTS if _is_local(checkpoints) else {}),
    }
    if embedded and len(str(folder)) <= 61:  # the name of a Unix socket has no room for more
        settings["spark.python.unix.domain.socket.dir"] = str(folder)
    settings |= conf
    environment = _environment(folder, embedded=embedded)
    flags = [_logging(folder), *_SMALL, *_archive(Path(environment["SPARK_HOME"]))]
    settings[_FLAGS] = " ".join([*map(shlex.quote, flags), conf.get(_FLAGS, "")]).strip()
    return _launch(SparkConf(loadDefaults=False).setAll(list(settings.items())), folder, environment)


def stop(spark: SparkSession, seconds: float = 20.0) -> None:
    """Ends Spark and its JVM, and returns when both are gone; a JVM that is deaf for `seconds` is killed."""
    process = _process()
    if process is None:
        if SparkContext._gateway is not None:  # noqa: SLF001  (the JVM is another's, and ends when we do)
            with hushed(), contextlib.suppress(Exception):
                spark.stop()
        return
    deadline = threading.Timer(seconds, _kill, [process])
    deadline.start()
    try:
        with hushed(), contextlib.suppress(Exception):  # a JVM that died before has nothing to say
            spark.stop()
        _end(process)
    finally:
        deadline.cancel()


def is_alive() -> bool:
    """Whether our JVM runs. Without it each call to Spark fails, and no query will ever end or report."""
    process = _process()
    return process is not None and process.poll() is None


def _join(folder: Path, conf: Mapping[str, str], *, local: bool) -> SparkSession:
    """The Spark of whoever submitted this program; what they have set stays."""
    if _GATEWAY not in os.environ:
        raise SparkError(f"--master {SUBMITTED}: this program was not started by spark-submit")
    handler = signal.getsignal(signal.SIGINT)
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001  (what was set can be read only then)
        given = SparkConf()
        ours = {
            **_GENERAL,
            **({} if given.get("spark.master", "").startswith("local") else _CLUSTER),
            **(_LOCAL_CHECKPOINTS if local else {}),
            "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        }
        for key, value in ours.items():
            given.setIfMissing(key, value)
        return SparkSession(SparkContext(conf=given.setAll(list(conf.items())), gateway=gateway))
    except (PySparkException, Py4JError) as error:
        raise SparkError(f"Spark did not start ({_reason(error)}): see what spark-submit says") from None
    finally:
        _take_back(handler)


def _launch(conf: SparkConf, folder: Path, environment: Mapping[str, str]) -> SparkSession:
    handler = signal.getsignal(signal.SIGINT)
    try:
        with _exported(environment), (folder / _ERRORS).open("ab") as output:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                conf, {"stdout": output, "stderr": output, "start_new_session": True}
            )
            return SparkSession(SparkContext(conf=conf, gateway=gateway))
    except BaseException as error:
        reason = _reason(error) if isinstance(error, PySparkException | Py4JError) else None
        if process := _process():
            _end(process)
        if reason is None:
            raise
        # Without its cause: to show one of Java's, the JVM is asked, and that is gone.
        raise SparkError(f"Spark did not start ({reason}): see {_LOG} and {_ERRORS} in {folder}") from None
    finally:
        _take_back(handler)


def _take_back(handler: Any) -> None:
    """Ctrl-C: the context has taken it, to cancel all jobs."""
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGINT, handler)


def _environment(folder: Path, *, embedded: bool) -> dict[str, str]:
    """What the JVM finds in its environment, "" for what it must not find."""
    ours = {
        "JAVA_HOME": str(java.home_for_spark(java.find(), folder / "java")),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    home = str(spark_home.overlay(cache_folder(), folder))
    if not embedded:
        return {
            **ours,
            "SPARK_HOME": os.environ.get("SPARK_HOME") or home,
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable,
            _GATEWAY: "",  # this one has a JVM of its own, whoever started us
        }
    return {
        **ours,
        "SPARK_HOME": home,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": _python(folder),  # or workers run whatever python3 is first in PATH
        # Spark would start one more daemon to look for data sources among all modules, had it a Python to do so.
        "PYSPARK_DRIVER_PYTHON": str(folder / "none"),
        "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX") or "2",  # a hundred mostly idle threads
        # Arrow's own allocator takes several MB in each Python process, for a handful of rows.
        "ARROW_DEFAULT_MEMORY_POOL": os.environ.get("ARROW_DEFAULT_MEMORY_POOL") or "system",
        # A Spark that is installed on this machine is not the one we start.
        "SPARK_CONF_DIR": "",
        "PYSPARK_SUBMIT_ARGS": "",
        _GATEWAY: "",
    }


@contextlib.contextmanager
def _exported(environment: Mapping[str, str]) -> Iterator[None]:
    """PySpark hands our own environment to the JVM; afterwards it is as before."""
    before = {name: os.environ.pop(name, None) for name in environment}
    os.environ.update({name: value for name, value in environment.items() if value})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _python(folder: Path) -> str:
    file = folder / "python"
    file.write_text(_PYTHON.format(python=shlex.quote(sys.executable)))
    file.chmod(0o700)
    return str(file) if os.access(file, os.X_OK) else sys.executable  # no program runs from some file systems


def _logging(folder: Path) -> str:
    file = folder / "log4j2.properties"
    file.write_text(_LOGGING.format(log=folder / _LOG))
    return f"-Dlog4j2.configurationFile={file.as_uri()}"


def _archive(home: Path) -> list[str]:
    archive = spark_home.archive(home, java.find())
    return [f"-XX:SharedArchiveFile={archive}"] if archive and archive.is_file() else []


def _is_local(checkpoints: str | None) -> bool:
    return checkpoints is None or "://" not in checkpoints or checkpoints.startswith("file:")


def _reason(error: Exception) -> str:
    """The line of a Java exception that names it; for others the first."""
    lines = str(error).splitlines()
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0])


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """A JVM that dies makes PySpark talk: py4j writes a traceback into the root log for each call, the server that
    collects accumulators prints one, others warn. Whoever calls Spark says in one line what it comes down to.
    """

    def keep(record: logging.LogRecord) -> bool:
        return "py4j" not in record.pathname

    root = logging.getLogger()
    root.addFilter(keep)
    servers = (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer)
    for server in servers:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root.removeFilter(keep)
        for server in servers:
            del server.handle_error  # that of their base is back


def _process() -> Popen[bytes] | None:
    gateway = SparkContext._gateway  # noqa: SLF001  (Spark has no door for those who want to end its JVM)
    return gateway.proc if gateway is not None else None


def _end(process: Popen[bytes]) -> None:
    gateway = SparkContext._gateway  # noqa: SLF001
    with contextlib.suppress(Exception):
        assert gateway is not None
        gateway.shutdown()
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()  # the JVM waits for this
    process.wait()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001  (the next start needs a new JVM)


def _kill(process: Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
