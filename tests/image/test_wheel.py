"""The wheel: its content, and `twinlog run` from an environment in which only the wheel is installed."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.command import Command
from lab.compare_logs import compare
from lab.mirrormaker import mirror_properties
from twinlog.config.properties import properties_text

ROOT = Path(__file__).parent.parent.parent
RECORDS = 1000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    (built,) = folder.glob("twinlog-*.whl")
    return built


@pytest.fixture(scope="module")
def venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, in which the dependencies of the running one are visible, but not the sources."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip("--python", folder / "bin" / "python", "install", "--no-deps", "--no-index", wheel)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    # A path added by a .pth file is not searched for further .pth files, such as that of an editable install.
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    return folder


def pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def test_the_wheel_contains_the_package_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
    sources = ROOT / "src"
    package = {
        str(path.relative_to(sources))
        for path in (sources / "twinlog").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"twinlog/py.typed", "twinlog/page/index.html"} < package
    metadata = {
        name for name in names if name.split("/")[0] == f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info"
    }
    assert names - metadata == package


@pytest.mark.broker
@pytest.mark.spark
def test_run_once_from_the_installed_wheel(venv: Path, us: Cluster, eu: Cluster, topic: str, tmp_path: Path) -> None:
    where: list[str | Path] = [venv / "bin" / "python", "-c", "import twinlog; print(twinlog.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()).is_relative_to(venv)

    us.create_topic(topic, partitions=2)
    us.tool(
        "producer-perf", "--topic", topic, "--num-records", str(RECORDS), "--throughput", "-1", "--record-size", "100"
    )
    file = tmp_path / "mm2.properties"
    settings = {"topics": topic, "heartbeats.replication.enabled": "false", "emit.heartbeats.enabled": "false"}
    file.write_text(properties_text(mirror_properties([us, eu], [(us, eu)], settings)))
    # env -i: no variable of the test process, such as PYTHONPATH, may make the sources visible.
    clean = ["env", "-i", f"--chdir={tmp_path}", *(f"{key}={value}" for key, value in environment().items())]
    run = Command(
        "twinlog run", [*clean, f"TMPDIR={tmp_path}", venv / "bin" / "twinlog", "run", file, "--once"], tmp_path / "log"
    )
    try:
        run.start()
        output = run.finish(180)
    finally:
        run.kill()
    assert f"us->eu: {RECORDS:,} records" in output, output
    compared = compare(us.client_properties(), topic, eu.client_properties(), f"us.{topic}", codecs=True)
    assert (compared.records, compared.differences) == (RECORDS, ())
