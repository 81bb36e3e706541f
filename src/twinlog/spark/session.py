"""Starts and stops Spark; by default embedded: small, quiet, and on loopback only.

Embedded, there are three kinds of processes: this one (the driver), its JVM, and Spark's Python processes, which are
children of the JVM. Stream readers and planning run in threads of the driver (driver_threads.py).
* Ctrl-C reaches only this process: the JVM leads its own session, which includes its children.
* When this process exits for any reason, the pipe to the JVM's standard input closes; the JVM exits, its pipes to the
  Python daemons close, and the daemons end their workers.

With a master, executors run elsewhere and only the driver is started here. A program started by `spark-submit` is the
child of an existing JVM (`SUBMITTED`), which is used with the submitter's settings.
"""

import contextlib
import logging
import os
import pwd
import re
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
from twinlog.cache import cache_folder, changeable_by_others
from twinlog.errors import SparkError
from twinlog.spark import python_script, spark_home
from twinlog.spark.driver_threads import DriverThreads

_log = logging.getLogger(__name__)

_LOG = "spark.log"  # Spark's log
_ERRORS = "spark.err"  # other output of the JVM and its Python processes
_FLAGS = "spark.driver.extraJavaOptions"
_GATEWAY = "PYSPARK_GATEWAY_PORT"  # set by spark-submit: the port of its JVM
_TAIL_BYTES, _TAIL_LINES, _TAIL_WIDTH = 16_384, 12, 300  # shown when Spark fails
# Stack frames (indented, of Java and of Python workers) are less useful than the lines around them, and two warnings
# are logged at every start.
_NOISE = re.compile(
    r"\s|Traceback \(most recent call last\)|WARNING: Using incubator modules|\S+ WARN NativeCodeLoader: "
)
SUBMITTED = "spark-submit"  # instead of a master URL: use the Spark that started this program
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"

# For any master.
_GENERAL = {
    "spark.app.name": "twinlog",
    "spark.scheduler.mode": "FAIR",  # flows share the slots; FIFO would starve the second flow
    "spark.speculation": "false",  # two attempts of a task at a time would copy everything twice
    "spark.python.worker.reuse": "true",
    "spark.python.authenticate.socketTimeout": "60s",  # the default 15 s fails queries on a busy machine
    "spark.python.daemon.module": "twinlog.spark.worker_daemon",
    "spark.sql.streaming.pollingDelay": "1ms",  # our reader blocks; Spark's sleep would only lengthen the gap
    "spark.sql.adaptive.enabled": "false",  # not used by streams; avoids a warning per query
    # Compiling code for a few rows takes 0.4 s of CPU at the start of a query.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.showConsoleProgress": "false",
}

# Without authentication, anyone who connects to Spark's ports can make it deserialize Java objects. It is enabled by
# default where Spark generates the secret itself (in memory; for executors by means of YARN or Kubernetes).
_AUTHENTICATE = "spark.authenticate"
_GENERATES_SECRET = re.compile(r"local(\[(\d+|\*)(,\s*\d+)?\])?$|yarn|k8s://")

# Driver and executors in one JVM.
_EMBEDDED = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",  # Spark does not start below 450 MB; its live objects take 50
    "spark.python.unix.domain.socket.enabled": "true",  # TCP's delayed ACKs cost 45 ms per stage
    "spark.ui.enabled": "false",
}

# Executors in separate processes, on other machines.
_CLUSTER = {
    "spark.executor.memory": "512m",  # the JVM only passes assignments to Python; Spark does not start below 450 MB
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    # A lost machine is detected after 30 s; with Spark's defaults after 2 to 3 minutes.
    "spark.executor.heartbeatInterval": "5s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "30s",
    "spark.network.timeoutInterval": "5s",
}

# For checkpoints on a local disk: the defaults fork about 20 processes (chmod, readlink) per batch.
_LOCAL_CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}

# The JVM only plans and schedules: serial collector, small young generation (which is always filled, whatever its
# size), and only the C1 compiler.
_JVM_OPTIONS = (
    "-XX:+UseSerialGC", "-Xmn24m", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true",
    "-Xlog:disable", "-Xlog:all=error:stderr",  # no warnings about incubator modules or archives that do not match
)  # fmt: skip

_threads: list[DriverThreads] = []  # of the running JVM: at most one

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


def start(
    master: str | None, slots: int, folder: Path, conf: Mapping[str, str], *, checkpoints: str | None = None
) -> SparkSession:
    """Starts Spark. Its log is `spark.log` in `folder`, which also holds its scratch files.

    Without a `master` Spark is embedded, with `slots` concurrent tasks. `conf` overrides all settings made here, but
    Java options are added to ours. `checkpoints` is the location of query checkpoints; None: a local disk.
    """
    folder = folder.resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if master == SUBMITTED:
        return _join(folder, conf, local=_is_local(checkpoints))
    embedded = master is None or master.startswith("local")
    settings = {
        "spark.master": master or f"local[{slots},4]",  # 4: attempts per task
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),  # or it is created in the working directory
        **_GENERAL,
        **(_EMBEDDED if embedded else _CLUSTER),
        **(_LOCAL_CHECKPOINTS if _is_local(checkpoints) else {}),
        **({_AUTHENTICATE: "true"} if master is None or _GENERATES_SECRET.match(master) else {}),
    }
    if embedded and len(str(folder)) <= 61:  # the path of a Unix socket is limited
        settings["spark.python.unix.domain.socket.dir"] = str(folder)
    settings |= conf
    environment = _environment(folder, embedded=embedded)
    flags = [_logging(folder), *_JVM_OPTIONS, *_archive(Path(environment["SPARK_HOME"]))]
    if (user := fallback_user()) is not None:
        flags += [f"-Duser.name={user}", f"-Duser.home={folder}"]  # Java would set both to "?"
    settings[_FLAGS] = " ".join([*map(shlex.quote, flags), conf.get(_FLAGS, "")]).strip()
    if embedded:
        with contextlib.suppress(OSError):  # not every file system has named pipes: then Spark starts processes
            _threads.append(DriverThreads(folder, folder / _ERRORS))
    spark = _launch(SparkConf(loadDefaults=False).setAll(list(settings.items())), folder, environment)
    if warning := authentication_warning(settings):
        _log.warning("%s", warning)
    return spark


def authentication_warning(settings: Mapping[str, str]) -> str:
    """A warning if Spark accepts unauthenticated connections; otherwise empty."""
    if settings.get(_AUTHENTICATE, "").strip().lower() == "true":
        return ""
    return (
        f"Spark ({settings.get('spark.master', SUBMITTED)}): ports are not authenticated, anyone who can connect can "
        f"run code in driver and executors; set {_AUTHENTICATE}=true and the secret of the cluster"
    )


def stop(spark: SparkSession, seconds: float = 20.0) -> None:
    """Stops Spark and its JVM, and waits until the JVM has exited; kills it after `seconds`."""
    process = _process()
    if process is None:
        if SparkContext._gateway is not None:  # noqa: SLF001  (spark-submit's JVM, which exits when we do)
            with quiet(), contextlib.suppress(Exception):
                spark.stop()
        return
    deadline = threading.Timer(seconds, _kill, [process])
    deadline.start()
    try:
        with quiet(), contextlib.suppress(Exception):  # the JVM may have exited already
            spark.stop()
        _end(process)
    finally:
        deadline.cancel()


def is_alive() -> bool:
    """Whether our JVM runs. Without it every call to Spark fails, and no query ends or reports."""
    process = _process()
    return process is not None and process.poll() is None


def _join(folder: Path, conf: Mapping[str, str], *, local: bool) -> SparkSession:
    """Uses the Spark of spark-submit, and does not override its settings."""
    if _GATEWAY not in os.environ:
        raise SparkError(f"--master {SUBMITTED}: not started by spark-submit; use another master")
    handler = signal.getsignal(signal.SIGINT)
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001  (settings can be read only after this)
        given = SparkConf()
        ours = {
            **_GENERAL,
            **({} if given.get("spark.master", "").startswith("local") else _CLUSTER),
            **(_LOCAL_CHECKPOINTS if local else {}),
            **({_AUTHENTICATE: "true"} if _GENERATES_SECRET.match(given.get("spark.master", "")) else {}),
            "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        }
        for key, value in ours.items():
            given.setIfMissing(key, value)
        given.setAll(list(conf.items()))
        if warning := authentication_warning(dict(given.getAll())):
            _log.warning("%s", warning)
        return SparkSession(SparkContext(conf=given, gateway=gateway))
    except (PySparkException, Py4JError) as error:
        raise SparkError(f"Spark did not start ({_reason(error)}); see the output of spark-submit") from None
    finally:
        _restore_interrupt(handler)


def _launch(conf: SparkConf, folder: Path, environment: Mapping[str, str]) -> SparkSession:
    handler = signal.getsignal(signal.SIGINT)
    try:
        with _exported(environment), (folder / _ERRORS).open("ab") as output:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                conf, {"stdout": output, "stderr": output, "start_new_session": True}
            )
            if (user := fallback_user()) is not None:
                users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
                users.setLoginUser(users.createRemoteUser(user))
            return SparkSession(SparkContext(conf=conf, gateway=gateway))
    except BaseException as error:
        reason = _reason(error) if isinstance(error, PySparkException | Py4JError) else None
        if process := _process():
            _end(process)
        if reason is None:
            raise
        # Without its cause: to format a Java exception, py4j calls the JVM, which has exited.
        raise SparkError(f"Spark did not start ({reason}); its log is in {folder}{log_tail(folder)}") from None
    finally:
        _restore_interrupt(handler)


def fallback_user() -> str | None:
    """A name for a user without an entry in the user database, as in a container with a numeric user; else None.

    Hadoop's login looks the name up, and fails without one in spite of its settings.
    """
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return os.environ.get("SPARK_USER") or os.environ.get("HADOOP_USER_NAME") or "twinlog"
    return None


def log_tail(folder: Path) -> str:
    """The last lines that Spark logged, indented: the files may be lost with the container."""
    lines: list[str] = []
    for name in (_LOG, _ERRORS):
        with contextlib.suppress(OSError), (folder / name).open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _TAIL_BYTES, 0))
            found = file.read().decode(errors="replace").splitlines()
            lines += [line for line in found if line.strip() and not _NOISE.match(line)][-_TAIL_LINES:]
    if not lines:
        return ""
    return ". Last lines:" + "".join(f"\n  {line.rstrip()[:_TAIL_WIDTH]}" for line in lines)


def _restore_interrupt(handler: Any) -> None:
    """SparkContext has replaced the handler of Ctrl-C with one that cancels all jobs."""
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGINT, handler)


def _environment(folder: Path, *, embedded: bool) -> dict[str, str]:
    """Environment variables of the JVM; "" removes a variable."""
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
            _GATEWAY: "",  # start a JVM even if spark-submit started us
        }
    return {
        **ours,
        "SPARK_HOME": home,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": python_script.write(folder),  # or workers run the first python3 in PATH
        # An invalid path, so that Spark does not start another daemon to search all modules for data sources.
        "PYSPARK_DRIVER_PYTHON": str(folder / "none"),
        "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX") or "2",  # about 100 mostly idle threads
        # Arrow's own allocator takes several MB per Python process, for a few rows.
        "ARROW_DEFAULT_MEMORY_POOL": os.environ.get("ARROW_DEFAULT_MEMORY_POOL") or "system",
        # Ignore the settings of a Spark installed on this machine.
        "SPARK_CONF_DIR": "",
        "PYSPARK_SUBMIT_ARGS": "",
        _GATEWAY: "",
    }


@contextlib.contextmanager
def _exported(environment: Mapping[str, str]) -> Iterator[None]:
    """PySpark passes our own environment to the JVM, so it is changed and then restored."""
    before = {name: os.environ.pop(name, None) for name in environment}
    os.environ.update({name: value for name, value in environment.items() if value})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _logging(folder: Path) -> str:
    file = folder / "log4j2.properties"
    file.write_text(_LOGGING.format(log=folder / _LOG))
    return f"-Dlog4j2.configurationFile={file.as_uri()}"


def _archive(home: Path) -> list[str]:
    archive = spark_home.archive(home, java.find())
    if archive is None or not archive.is_file() or changeable_by_others(archive):  # it is code
        return []
    return [f"-XX:SharedArchiveFile={archive}"]


def _is_local(checkpoints: str | None) -> bool:
    return checkpoints is None or "://" not in checkpoints or checkpoints.startswith("file:")


def _reason(error: Exception) -> str:
    """The line with the name of a Java exception; for others the first line."""
    lines = str(error).splitlines()
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0])


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppresses PySpark's output about a JVM that exited: py4j logs a traceback per call, the accumulator server
    prints one, other modules warn. Callers report the failure in one line.
    """

    def not_py4j(record: logging.LogRecord) -> bool:
        return "py4j" not in record.pathname

    root = logging.getLogger()
    root.addFilter(not_py4j)
    servers = (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer)
    for server in servers:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root.removeFilter(not_py4j)
        for server in servers:
            del server.handle_error  # back to the inherited one


def _process() -> Popen[bytes] | None:
    gateway = SparkContext._gateway  # noqa: SLF001  (there is no public API to end the JVM)
    return gateway.proc if gateway is not None else None


def _end(process: Popen[bytes]) -> None:
    gateway = SparkContext._gateway  # noqa: SLF001
    with contextlib.suppress(Exception):
        assert gateway is not None
        gateway.shutdown()
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()  # this makes the JVM exit
    process.wait()
    while _threads:
        _threads.pop().close()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001  (the next start must launch a new JVM)


def _kill(process: Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
