"""A Spark standalone cluster whose machines have Java and Spark, but neither Python nor Twinlog."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.lab import Lab
from lab.spark_cluster import SparkCluster
from tests.runtime.conftest import Pair

# Used by Spark's scripts, and to unpack archives.
TOOLS = ("bash", "chmod", "dirname", "gzip", "ls", "readlink", "rm", "sh", "tar", "uname")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PATH without Python."""
    folder = tmp_path_factory.mktemp("bare")
    for name in TOOLS:
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


@pytest.fixture(scope="module")
def spark(lab: Lab, bare: Path) -> Iterator[SparkCluster]:
    env = {"PATH": str(bare), "PYTHONPATH": "", "VIRTUAL_ENV": ""}
    with SparkCluster(lab.folder / "spark", workers=2, cores=2, env=env) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def pair(us: Cluster, eu: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(us, eu, tmp_path_factory.mktemp("run"))
    try:
        yield pair
    finally:
        pair.close()


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The packed environment, not compressed, and its content in `env` next to it, as on a submitting machine."""
    folder = tmp_path_factory.mktemp("packed")
    archive = folder / "twinlog-env.tar.gz"
    subprocess.run([sys.executable, "-m", "twinlog.spark.pack", archive, "0"], check=True, capture_output=True)
    (folder / "env").mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", folder / "env"], check=True)
    yield archive
    shutil.rmtree(folder)  # more than a gigabyte
