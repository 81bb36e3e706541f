"""A flow on a Spark standalone cluster, by `twinlog run --master` and by `spark-submit` with a packed environment.
Executors and workers are killed; an executor started by the image's entrypoint takes over.
"""

import os
import signal
from pathlib import Path

import pytest

from lab import resource_usage
from lab.ports import HOST, free_port
from lab.process import Process
from lab.spark_cluster import SparkCluster, SparkWorker, command
from lab.waiting import until
from tests.runtime.conftest import Pair, Twin
from twinlog import java

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ROOT = Path(__file__).parent.parent.parent
SECRET = "hush-4711-hush"
START = 240.0  # seconds to start on a busy machine
SMALL = ("--conf", "spark.ui.enabled=false")


def test_killed_executors_and_workers_lose_and_duplicate_nothing(
    spark: SparkCluster, pair: Pair, tmp_path: Path
) -> None:
    """Kills one executor, then a worker with its executor, then the other worker. The flow continues in the remaining
    slots, at last in an executor that was started as by Kubernetes.
    """
    pair.source.create_topic("killed", 4)
    feed = pair.feed("killed")
    feed.flow()
    port = free_port()
    settings = {"topics": "killed", "tasks.max": "3"}
    twin = pair.run(
        pair.file(settings, "killed"), "--master", spark.url, *SMALL,
        "--conf", f"spark.driver.port={port}", "--conf", f"spark.driver.host={HOST}",
    )  # fmt: skip
    first, second = spark.workers
    twin.wait_for("Spark 4", START)
    pair.wait_for_more(twin, "killed", seconds=START)
    until(lambda: bool(first.executors() and second.executors()), "each worker has an executor", seconds=START)

    first.kill_executors()
    wait_for_progress(pair, twin, "killed")
    # An executor that is still starting when its worker is killed would run as long as its driver.
    until(lambda: registered(first) == 2, "the worker starts another executor", seconds=START)

    first.kill()
    wait_for_progress(pair, twin, "killed")
    assert "us->eu: 2 of 3 tasks" in twin.output
    until(lambda: not first.left_over(), "all processes of the worker end with it", seconds=START)

    executor = Process("executor", tmp_path / "executor.log")
    try:
        executor.launch([str(ROOT / "docker" / "entrypoint"), "executor"], entrypoint(spark, port, tmp_path))
        until(
            lambda: "Successfully registered" in executor.tail(200),
            "it registers",
            seconds=START,
            logs=executor.log_excerpt,
        )
        second.kill()
        wait_for_progress(pair, twin, "killed")
        feed.pause()
        pair.wait_until_equal("killed", seconds=START)
        assert "Traceback" not in executor.tail(1000)
        assert twin.terminate(40) == 0
        assert executor.wait(30) is not None, "an executor ends when its driver is gone"
    finally:
        executor.kill()
    assert twin.left_over() == []
    for worker in spark.workers:
        spark.start_worker(worker)


def wait_for_progress(pair: Pair, twin: Twin, topic: str) -> None:
    """In every partition, not only in those of unaffected tasks."""
    before = pair.ends(topic)
    until(
        lambda: all(now > then + 50 for now, then in zip(pair.ends(topic), before, strict=True)),
        "every partition progresses",
        seconds=START,
        logs=lambda: f"; {before} were there, now {pair.ends(topic)}; output:\n{twin.output}",
    )


def registered(worker: SparkWorker) -> int:
    """The number of executors of the worker that registered with a driver, by their logs."""
    return sum("Successfully registered with driver" in log.read_text() for log in worker.folder.rglob("stderr"))


def entrypoint(spark: SparkCluster, port: int, folder: Path) -> dict[str, str]:
    """The environment of an executor's pod."""
    (folder / "tini").write_text('#!/bin/sh\nshift 2; exec "$@"\n')  # replaces the one in the image
    (folder / "tini").chmod(0o755)
    (application,) = spark.state()["activeapps"]
    opens = ("java.lang", "java.lang.invoke", "java.net", "java.nio", "java.util", "java.util.concurrent", "sun.nio.ch")
    options = [
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *(f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in opens),
    ]
    return {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "JAVA_HOME": str(java.find().home),
        "SPARK_HOME": str(spark.home),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DRIVER_URL": f"spark://CoarseGrainedScheduler@{HOST}:{port}",
        "SPARK_EXECUTOR_ID": "4711",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_APPLICATION_ID": str(application["id"]),
        "SPARK_EXECUTOR_POD_IP": HOST,
        "SPARK_EXECUTOR_POD_NAME": "twinlog-exec-4711",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        **{f"SPARK_JAVA_OPT_{at}": option for at, option in enumerate(options)},
    }


def test_submitted_with_a_packed_environment(
    spark: SparkCluster, pair: Pair, packed: Path, bare: Path, tmp_path: Path
) -> None:
    """Driver and executor use only the packed Python; secrets of the configuration are not written anywhere."""
    pair.source.create_topic("submitted", 2)
    feed = pair.feed("submitted")
    feed.flow()
    events = tmp_path / "events"
    events.mkdir()
    file = pair.file({"topics": "submitted", "tasks.max": "1", "us.ssl.keystore.password": SECRET}, "submitted")
    until(lambda: spark.state().get("aliveworkers") == 2, "both workers are back", seconds=START)
    conf = {
        "spark.pyspark.python": "./env/bin/python",
        "spark.cores.max": "1",  # one executor: each takes half a gigabyte of disk
        "spark.log.level": "WARN",
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.driver.host": HOST,
    }
    words = [word for key, text in conf.items() for word in ("--conf", f"{key}={text}")]
    submit = Process("spark-submit", tmp_path / "submit.log")
    try:
        submit.launch(
            [
                "/bin/sh", "-c", 'cd "$0" && exec "$@"', str(packed.parent), str(spark.home / "bin" / "spark-submit"),
                "--master", spark.url, "--archives", f"{packed}#env", *words, "env/bin/twinlog-submit.py", "run", str(file),
            ],
            {
                "PATH": str(bare), "PYTHONPATH": "", "VIRTUAL_ENV": "", "SPARK_HOME": str(spark.home),
                "SPARK_LOCAL_DIRS": str(tmp_path / "local"), "TMPDIR": str(tmp_path), "JAVA_HOME": str(java.find().home),
            },
        )  # fmt: skip
        until(
            lambda: pair.arrived("submitted") > 500, "records arrive",
            seconds=START, failed=submit.exit_report, logs=submit.log_excerpt,
        )  # fmt: skip
        pythons = [pid for worker in spark.workers for pid in worker.python_processes()]
        driver = [pid for pid in resource_usage.tree(submit.pid or 0) if "bin/python" in command(pid).split(" ")[0]]
        assert pythons
        assert driver
        for pid in (*pythons, *driver):
            assert foreign(pid, (spark.folder, packed.parent)) == set()
        feed.pause()
        pair.wait_until_equal("submitted", seconds=START)
        (main,) = [pid for pid in driver if "twinlog-submit.py" in command(pid)]
        os.kill(main, signal.SIGTERM)
        assert submit.wait(60) == 0, submit.tail()
    finally:
        submit.kill()
    small = [
        path for folder in (events, spark.folder, tmp_path) for path in folder.rglob("*")
        if path.is_file() and "env" not in path.parts and path.stat().st_size < 10_000_000
    ]  # fmt: skip
    assert [path for path in small if path.is_relative_to(events)], "an event log was written"
    assert [path for path in small if SECRET.encode() in path.read_bytes()] == []


def foreign(pid: int, homes: tuple[Path, ...]) -> set[str]:
    """Code files that a process has loaded from outside `homes`, except those of glibc."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    files = {line.split(maxsplit=5)[5] for line in maps.splitlines() if " /" in line and "r-xp" in line}
    glibc = ("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0",
             "librt.so.1", "libutil.so.1", "libresolv.so.2")  # fmt: skip
    return {
        file
        for file in files
        if not Path(file).name.startswith(glibc) and not any(file.startswith(str(home)) for home in homes)
    }
