"""Spark as an embedded engine: made once per machine, quiet, deaf to Ctrl-C, gone when its driver is gone."""

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

from twinlog.java import Java
from twinlog.lab import usage
from twinlog.pipeline import spark_home

# A data source like ours: its rows say what to do, its sink takes long over it.
SOURCE = """\
    import os, sys, time
    from pathlib import Path
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, DataSourceStreamWriter, InputPartition
    from pyspark.sql.datasource import WriterCommitMessage

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
            time.sleep(600 if start["epoch"] else 0)
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
                seen = ["twinlog.pipeline.datasource" in sys.modules, sys.executable, os.getcwd()]
                (self.marks / f"{row.task}").write_text("\\n".join(map(str, seen)))
            time.sleep(self.seconds)
            return WriterCommitMessage()

        def commit(self, messages, batchId):
            (self.marks / "committed").touch()
"""

# Like `twinlog run`: it handles Ctrl-C itself, and is in no hurry.
DRIVER = """\
    import signal, sys, time
    from pathlib import Path
    import slow
    from twinlog.pipeline import session

    folder, marks = map(Path, sys.argv[1:])
    signal.signal(signal.SIGINT, lambda *_: (marks / "interrupted").touch())
    spark = session.start(None, 4, folder, {})
    spark.dataSource.register(slow.Slow)
    for seconds in ("0", "600"):  # the first query's reader then waits for ever, the second's tasks do
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

# One life after another in one process.
LIVES = """\
    import os, signal, sys
    from pathlib import Path
    from twinlog.errors import SparkError
    from twinlog.lab import usage
    from twinlog.pipeline import session

    folder = Path(sys.argv[1])
    handler, environment = signal.getsignal(signal.SIGINT), dict(os.environ)
    try:
        session.start("local[nonsense]", 1, folder, {})
    except SparkError as error:
        assert "Could not parse Master URL" in str(error), error
    else:
        raise AssertionError("it started")
    assert len(list(usage.tree(os.getpid()))) == 1, "the JVM of the failed start is still there"

    spark = session.start(None, 3, folder, {"spark.sql.streaming.pollingDelay": "7ms"})
    assert session.is_alive()
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.master") == "local[3,4]"
    assert conf.get("spark.sql.streaming.pollingDelay") == "7ms", "the operator's setting wins"
    assert spark.range(3).count() == 3
    assert signal.getsignal(signal.SIGINT) is handler
    assert {k: v for k, v in os.environ.items() if k not in ("SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE")} == environment
    session.stop(spark)
    session.stop(spark)
    assert not session.is_alive()
    assert len(list(usage.tree(os.getpid()))) == 1, "something is left behind"
    assert not list(folder.glob(".*.sock")), "so are sockets"

    spark = session.start(None, 1, folder, {})
    jvm = max(usage.tree(os.getpid()))
    os.kill(jvm, signal.SIGKILL)
    session.stop(spark)
    assert not session.is_alive()
"""


def installed(package: object) -> Path:
    return Path(str(package.__file__)).parent.resolve()  # type: ignore[attr-defined]


def test_the_overlay_stands_in_for_the_installation(tmp_path: Path) -> None:
    home = spark_home.overlay(tmp_path / "cache")
    assert pyspark.__version__ in home.name
    assert (home / "bin" / "spark-submit").is_file()
    assert (home / "jars").resolve() == installed(pyspark) / "jars"
    zips = {file.name: next(file.iterdir()) for file in (home / "python" / "lib").iterdir()}
    assert {file.name for file in (installed(pyspark) / "python" / "lib").glob("*.zip")} == set(zips)
    assert zips.pop("pyspark.zip").resolve() == installed(pyspark)
    assert [package.resolve() for package in zips.values()] == [installed(py4j)]
    assert spark_home.overlay(tmp_path / "cache") == home


def test_processes_that_make_the_overlay_at_once_agree(tmp_path: Path) -> None:
    code = f"from pathlib import Path; from twinlog.pipeline import spark_home as h; print(h.overlay(Path({str(tmp_path)!r})))"
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: subprocess.check_output([sys.executable, "-c", code], text=True), range(6)))
    (home,) = set(made)
    assert [str(path) for path in tmp_path.iterdir()] == [home.strip()], "nothing half-made is left"


def test_the_overlay_goes_where_it_can(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert spark_home.overlay(tmp_path / "file" / "cache", tmp_path / "folder").parent == tmp_path / "folder"
    assert spark_home.overlay(tmp_path / "file" / "cache") == installed(pyspark)


def test_a_stripped_java_has_no_archive(tmp_path: Path) -> None:
    assert spark_home.archive(tmp_path, Java(tmp_path, 21, "pip", complete=False)) is None


@pytest.fixture
def workplace(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    for name, text in (("slow", SOURCE), ("driver", DRIVER), ("lives", LIVES)):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    (tmp_path / "marks").mkdir()
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    # What an operator's shell may hold of another Spark must not matter.
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
def test_ctrl_c_reaches_the_driver_only_and_its_death_everyone(workplace: tuple[Path, dict[str, str]]) -> None:
    here, environment = workplace
    folder, marks, out = here / "a folder", here / "marks", here / "out"
    with out.open("wb") as output:
        driver = subprocess.Popen(
            [sys.executable, here / "driver.py", folder, marks], env=environment, cwd=here,
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        assert wait_until(lambda: (marks / "0").exists() and (marks / "1").exists(), 120), out.read_text()
        assert (marks / "0").read_text().splitlines() == ["True", sys.executable, str(here)]
        family = running(list(usage.tree(driver.pid)))  # a start script leaves a zombie in the JVM's care
        assert len(family) > 5

        os.killpg(driver.pid, signal.SIGINT)  # what a terminal does on Ctrl-C
        assert wait_until((marks / "interrupted").exists, 30)
        time.sleep(1)
        assert running(family) == family
        assert out.read_text() == "", "an operator sees nothing of Spark"
        assert "Traceback" not in (folder / "spark.err").read_text()

        driver.kill()
        driver.wait()
        assert wait_until(lambda: not running(family), 30), f"still there: {running(family)}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            driver.kill()
        driver.wait()


@pytest.mark.spark
def test_it_stops_completely_and_starts_again(workplace: tuple[Path, dict[str, str]]) -> None:
    here, environment = workplace
    done = subprocess.run(
        [sys.executable, "lives.py", here / "folder"], env=environment, cwd=here, timeout=180, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert not done.stderr
    assert (done.returncode, done.stdout) == (0, "")
    assert {path.name for path in here.iterdir()} == {"slow.py", "driver.py", "lives.py", "marks", "folder"}
