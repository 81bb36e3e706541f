"""Embedded Spark: created once per machine, quiet, not affected by Ctrl-C, gone when its driver is gone."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import py4j
import pyspark
import pytest

from lab import resource_usage
from twinlog.java import Java
from twinlog.spark import session, spark_home

# A data source like ours, with long-running tasks.
SOURCE = """\
    import os, sys, time
    from pathlib import Path
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, DataSourceStreamWriter, InputPartition
    from pyspark.sql.datasource import WriterCommitMessage
    from twinlog.spark import driver_threads

    class Slow(DataSource):
        @classmethod
        def name(cls):
            return "slow"

        def schema(self):
            return "task INT"

        def streamReader(self, schema):
            return Reader()

        def streamWriter(self, schema, overwrite):
            return Writer(Path(self.options["marks"]), float(self.options["seconds"]))

    class Reader(DataSourceStreamReader):
        def initialOffset(self):
            return {"epoch": 0}

        def latestOffset(self, start, limit):
            driver_threads.wait(600 if start["epoch"] else 0)
            return {"epoch": start["epoch"] + 1}

        def partitions(self, start, end):
            return [InputPartition(0), InputPartition(1)]

        def read(self, partition):
            yield (partition.value,)

    class Writer(DataSourceStreamWriter):
        def __init__(self, marks, seconds):
            self.marks, self.seconds = marks, seconds

        def write(self, rows):
            for row in rows:
                seen = ["twinlog.spark.datasource" in sys.modules, sys.executable, os.getcwd()]
                (self.marks / f"{row.task}").write_text("\\n".join(map(str, seen)))
            time.sleep(self.seconds)
            return WriterCommitMessage()

        def commit(self, messages, batchId):
            (self.marks / "committed").touch()
"""

# Like `twinlog run`: it handles Ctrl-C itself.
DRIVER = """\
    import signal, sys, time
    from pathlib import Path
    import slow
    from twinlog.spark import session

    folder, marks = map(Path, sys.argv[1:])
    signal.signal(signal.SIGINT, lambda *_: (marks / "interrupted").touch())
    spark = session.start(None, 4, folder, {})
    spark.dataSource.register(slow.Slow)
    for seconds in ("0", "600"):  # the first query's reader blocks, then the second's tasks
        rows = spark.readStream.format("slow").load()
        options = {"marks": str(marks), "seconds": seconds, "checkpointLocation": str(folder / seconds)}
        query = rows.writeStream.format("slow").options(**options).start()
        while seconds == "0" and not (marks / "committed").exists():
            time.sleep(0.05)
        if seconds == "0":
            for mark in marks.iterdir():
                mark.unlink()
    query.awaitTermination()
"""

# Several starts in one process.
RESTARTS = """\
    import contextlib, os, signal, sys, threading, time
    from pathlib import Path
    import intruder, slow
    from twinlog.errors import SparkError
    from lab import resource_usage
    from twinlog.spark import session

    folder, marks = map(Path, sys.argv[1:])
    handler, environment = signal.getsignal(signal.SIGINT), dict(os.environ)
    try:
        session.start("local[nonsense]", 1, folder, {})
    except SparkError as error:
        assert "Could not parse Master URL" in str(error), error
    else:
        raise AssertionError("it started")
    assert len(list(resource_usage.tree(os.getpid()))) == 1, "the JVM of the failed start is still there"

    blocks = intruder.free_port()
    settings = {"spark.sql.streaming.pollingDelay": "7ms", "spark.driver.blockManager.port": str(blocks)}
    spark = session.start(None, 3, folder, settings)
    assert session.is_alive()
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.master") == "local[3,4]"
    assert conf.get("spark.sql.streaming.pollingDelay") == "7ms", "the operator's setting wins"
    assert conf.get("spark.authenticate.secret") is None
    assert spark.range(3).count() == 3
    for port in (int(conf.get("spark.driver.port")), blocks):
        intruder.assert_rejected(port)

    quiet = contextlib.ExitStack()
    quiet.enter_context(session.quiet())
    spark.dataSource.register(slow.Slow)
    for seconds in ("0", "600"):  # one reader waits in a call of Spark's, the other for one
        options = {"marks": str(marks), "seconds": seconds, "checkpointLocation": str(folder / seconds)}
        query = spark.readStream.format("slow").load().writeStream.format("slow").options(**options).start()
        while not (marks / ("committed" if seconds == "0" else "0")).exists():
            assert query.isActive, query.exception()
            time.sleep(0.05)
        readers = [thread for thread in threading.enumerate() if thread.name.startswith("reader ")]
        assert len(readers) == 1, "the reader is a thread of the driver"
        commands = []
        for pid in resource_usage.tree(os.getpid()):
            with contextlib.suppress(OSError):  # it may exit meanwhile
                if pid != os.getpid() and "python" in Path(os.readlink(f"/proc/{pid}/exe")).name:
                    commands.append(Path(f"/proc/{pid}/cmdline").read_text())
        assert not [command for command in commands if "pyspark.sql" in command], "so is planning"
        query.stop()
        readers[0].join(60)
        assert not readers[0].is_alive(), "it ends with its query"
        for mark in marks.iterdir():
            mark.unlink()
    quiet.close()
    assert signal.getsignal(signal.SIGINT) is handler
    assert {k: v for k, v in os.environ.items() if k not in ("SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE")} == environment
    session.stop(spark)
    session.stop(spark)
    assert not session.is_alive()
    assert len(list(resource_usage.tree(os.getpid()))) == 1, "something is left behind"
    assert not list(folder.glob(".*.sock")), "so are sockets"

    spark = session.start(None, 1, folder, {})
    jvm = max(resource_usage.tree(os.getpid()))
    os.kill(jvm, signal.SIGKILL)
    session.stop(spark)
    assert not session.is_alive()
"""


# An unauthenticated request whose body Spark would deserialize as a Java object.
INTRUDER = """\
    import socket, struct

    def free_port():
        with socket.create_server(("127.0.0.1", 0)) as free:
            return free.getsockname()[1]

    def assert_rejected(port):
        response = answer(port)
        assert b"StreamCorrupted" not in response and b"Sasl" in response, response[:300]

    def answer(port):
        def text(value):
            return struct.pack(">H", len(value)) + value
        body = b"\\0" + b"\\1" + text(b"127.0.0.1") + struct.pack(">i", port) + text(b"endpoint-verifier") + b"no Java object"
        message = b"\\3" + struct.pack(">qi", 7, len(body)) + body
        with socket.create_connection(("127.0.0.1", port), 30) as connection:
            connection.sendall(struct.pack(">q", 8 + len(message)) + message)
            found = b""
            while len(found) < 8 or len(found) < struct.unpack(">q", found[:8])[0]:
                piece = connection.recv(65536)
                if not piece:
                    break
                found += piece
        return found
"""


def installed(package: object) -> Path:
    return Path(str(package.__file__)).parent.resolve()  # type: ignore[attr-defined]


def test_the_overlay_links_to_the_installation(tmp_path: Path) -> None:
    home = spark_home.overlay(tmp_path / "cache")
    assert pyspark.__version__ in home.name
    assert (home / "bin" / "spark-submit").is_file()
    assert (home / "jars").resolve() == installed(pyspark) / "jars"
    zips = {file.name: next(file.iterdir()) for file in (home / "python" / "lib").iterdir()}
    assert {file.name for file in (installed(pyspark) / "python" / "lib").glob("*.zip")} == set(zips)
    assert zips.pop("pyspark.zip").resolve() == installed(pyspark)
    assert [package.resolve() for package in zips.values()] == [installed(py4j)]
    assert spark_home.overlay(tmp_path / "cache") == home


def test_concurrent_creation_of_the_overlay(tmp_path: Path) -> None:
    code = f"from pathlib import Path; from twinlog.spark import spark_home as h; print(h.overlay(Path({str(tmp_path)!r})))"
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: subprocess.check_output([sys.executable, "-c", code], text=True), range(6)))
    (home,) = set(made)
    assert [str(path) for path in tmp_path.iterdir()] == [home.strip()], "nothing incomplete is left"


def test_the_overlay_uses_the_first_writable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert spark_home.overlay(tmp_path / "file" / "cache", tmp_path / "folder").parent == tmp_path / "folder"
    assert spark_home.overlay(tmp_path / "file" / "cache") == installed(pyspark)


def test_a_stripped_java_has_no_archive(tmp_path: Path) -> None:
    assert spark_home.archive(tmp_path, Java(tmp_path, 21, "pip", complete=False)) is None


@pytest.fixture
def workplace(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    for name, text in (("slow", SOURCE), ("driver", DRIVER), ("restarts", RESTARTS), ("intruder", INTRUDER)):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    (tmp_path / "marks").mkdir()
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    # Settings of another Spark in the shell must have no effect.
    other = {"SPARK_HOME": "/opt/other", "PYSPARK_PYTHON": "/opt/other/python", "PYSPARK_SUBMIT_ARGS": "--nonsense"}
    return tmp_path, {**os.environ, "PYTHONPATH": path, **other}


def wait_until(condition: object, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    assert callable(condition)
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def running(processes: list[int]) -> list[int]:
    found = []
    for process in processes:
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            found += [process] if state != "Z" else []
    return found


@pytest.mark.spark
@pytest.mark.slow
def test_ctrl_c_reaches_only_the_driver_and_all_processes_end_with_it(workplace: tuple[Path, dict[str, str]]) -> None:
    here, environment = workplace
    folder, marks, out = here / "a folder", here / "marks", here / "out"
    with out.open("wb") as output:
        driver = subprocess.Popen(
            [sys.executable, here / "driver.py", folder, marks], env=environment, cwd=here,
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        written = [marks / "0", marks / "1"]
        assert wait_until(lambda: all(mark.is_file() and mark.read_text() for mark in written), 120), out.read_text()
        assert (marks / "0").read_text().splitlines() == ["True", sys.executable, str(here)]
        processes = running(list(resource_usage.tree(driver.pid)))  # a start script leaves a zombie child of the JVM
        assert len(processes) > 5

        os.killpg(driver.pid, signal.SIGINT)  # what a terminal does on Ctrl-C
        assert wait_until((marks / "interrupted").exists, 30)
        time.sleep(1)
        assert running(processes) == processes
        assert out.read_text() == "", "an operator sees nothing of Spark"
        assert "Traceback" not in (folder / "spark.err").read_text()

        driver.kill()
        driver.wait()
        assert wait_until(lambda: not running(processes), 30), f"still there: {running(processes)}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            driver.kill()
        driver.wait()


@pytest.mark.spark
def test_it_rejects_intruders_stops_completely_and_starts_again(
    workplace: tuple[Path, dict[str, str]],
) -> None:
    here, environment = workplace
    done = subprocess.run(
        [sys.executable, "restarts.py", here / "folder", here / "marks"], env=environment, cwd=here, timeout=400, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert not done.stderr
    assert (done.returncode, done.stdout) == (0, "")
    ours = {"slow.py", "driver.py", "restarts.py", "intruder.py", "marks", "folder"}
    assert {path.name for path in here.iterdir()} - {"__pycache__"} == ours


@pytest.mark.parametrize("value", [None, "false"])
def test_warning_about_missing_authentication(value: str | None) -> None:
    settings = {"spark.master": "spark://one:7077"} | ({"spark.authenticate": value} if value else {})
    assert "spark://one:7077" in session.authentication_warning(settings)
    assert not session.authentication_warning({**settings, "spark.authenticate": "true"})


def test_the_last_lines_of_sparks_log_have_no_stack_frames(tmp_path: Path) -> None:
    (tmp_path / "spark.log").write_text("10:18 ERROR Executor: lost\njava.io.IOException: gone\n\tat a.B.c(B.java:1)\n")
    (tmp_path / "spark.err").write_text(
        'Traceback (most recent call last):\n  File "pyspark/daemon.py", line 95, in worker\n    outfile.flush()\n'
        "BrokenPipeError: [Errno 32] Broken pipe\n"
    )
    assert session.log_tail(tmp_path).splitlines() == [
        ". Last lines:",
        "  10:18 ERROR Executor: lost",
        "  java.io.IOException: gone",
        "  BrokenPipeError: [Errno 32] Broken pipe",
    ]
