"""examples/kubernetes: the whole example, and the consistency of its manifests with each other and with the CLI."""

import importlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyspark
import pytest
import yaml
from click.testing import CliRunner

from lab.certificates import Authority
from twinlog.cli.main import cli
from twinlog.cli.read_commands import config
from twinlog.cli.run_commands import run
from twinlog.config.kubernetes_secrets import Secrets

ROOT = Path(__file__).parents[2]
HOME = ROOT / "examples" / "kubernetes"
SEED = ROOT / "tests" / "config" / "seeds" / "mirrormaker2.yaml"
RESOURCE = HOME / "embedded" / "mirrormaker2.yaml"
MOUNTED = "/etc/twinlog"
KUBERNETES = "1.33"
NAMESPACE = "twinlog"
BY = {"containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath", "ports": "containerPort"}

Tree = dict[str, Any]
Load = Callable[[str, str], ModuleType]


@pytest.mark.broker
@pytest.mark.spark
def test_example(run_example: Callable[..., str]) -> None:
    output = run_example("kubernetes", "--seconds", "5")
    assert "7 partitions, after" in output
    assert "under the same names" in output
    assert "/health, for Kubernetes' probes: healthy" in output
    assert re.search(r"resumed on dest: [1-9]\d* records there, none was lost, 0 were read again", output)


# The resource and secrets


def test_the_resource_is_the_original() -> None:
    assert RESOURCE.read_text() == SEED.read_text()


def test_secrets_are_laid_out_as_in_a_pod(tmp_path: Path, module: Load) -> None:
    mount = module("kubernetes", "secrets_folder").mount
    mount(tmp_path, "source-user", {"user.crt": b"old", "user.key": b"old"})
    assert (tmp_path / "source-user" / "..data").is_symlink()
    assert str((tmp_path / "source-user" / "user.crt").readlink()) == "..data/user.crt"
    assert Secrets(tmp_path).read("source-user", "user.crt") == "old"
    mount(tmp_path, "source-user", {"user.crt": b"new", "user.key": b"new"})
    assert Secrets(tmp_path).read("source-user", "user.key") == "new"
    assert [file.read_text() for file in Secrets(tmp_path).matching("source-user", "*.crt")] == ["new"]


# Manifests


@pytest.fixture(params=["embedded", "executors"])
def applied(request: pytest.FixtureRequest) -> list[Tree]:
    """The resources of `kubectl apply -k`, without the generated config maps."""
    return _applied(request.param)


def test_manifests_are_valid(applied: list[Tree]) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate").validate
    template = _documents(HOME / "executors" / "executor.yaml")
    for each in [*applied, *template]:
        validate(each, KUBERNETES, strict=True)


@pytest.mark.parametrize("folder", ["embedded", "executors"])
def test_kustomize_builds_the_same(folder: str) -> None:
    tool = shutil.which("kustomize")
    if tool is None:
        pytest.skip("needs kustomize on the PATH")
    built = subprocess.run([tool, "build", str(HOME / folder)], capture_output=True, text=True, check=True)
    made = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(built.stdout)}
    maps = {name: made.pop(("ConfigMap", name)) for kind, name in list(made) if kind == "ConfigMap"}
    hashed = {re.sub(r"-\w{10}$", "", name): name for name in maps}
    assert sorted(hashed) == sorted(_generated(folder))
    assert maps[hashed["twinlog-config"]]["data"] == {"mirrormaker2.yaml": RESOURCE.read_text()}
    ours = {(each["kind"], each["metadata"]["name"]): each for each in _applied(folder)}
    for key, each in made.items():
        assert each["kind"] == "Namespace" or each["metadata"].pop("namespace") == NAMESPACE
        if key[0] == "Deployment":
            (container,) = each["spec"]["template"]["spec"]["containers"]
            assert container["image"] == _image()
            container["image"] = "twinlog"
            for volume in each["spec"]["template"]["spec"]["volumes"]:
                if "configMap" in volume:  # its name contains a hash of its content, so that changes restart the pod
                    plain = {name: key for key, name in hashed.items()}
                    volume["configMap"]["name"] = plain[volume["configMap"]["name"]]
        assert each == ours.pop(key)
    assert not ours


def test_selectors_match_the_right_pods(applied: list[Tree]) -> None:
    pod = _one(applied, "Deployment")["spec"]["template"]
    labels = pod["metadata"]["labels"]
    executor = _documents(HOME / "executors" / "executor.yaml")[0]["metadata"]["labels"]
    (monitor,) = _documents(HOME / "podmonitor.yaml")
    selectors = [_one(applied, "Deployment")["spec"]["selector"], monitor["spec"]["selector"]]
    selectors += [{"matchLabels": each["spec"]["selector"]} for each in applied if each["kind"] == "Service"]
    for selector in selectors:
        assert selector["matchLabels"].items() <= labels.items()
        assert not selector["matchLabels"].items() <= executor.items()
    for policy in (each for each in applied if each["kind"] == "NetworkPolicy"):
        wanted = executor if policy["metadata"]["name"] == "twinlog-executor" else labels
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= wanted.items()
    assert labels[monitor["spec"]["jobLabel"]] == "twinlog"  # the job that the rules expect


def test_ports_and_probes_match_the_command(applied: list[Tree]) -> None:
    pod = _one(applied, "Deployment")["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    given = _given(container["args"])
    assert ports["http"] == given["port"] == int(pod["metadata"]["annotations"]["prometheus.io/port"])
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if given["host"] == "127.0.0.1":  # not reachable for the kubelet, but for the image's health command
            assert "httpGet" not in container[probe]
            assert container[probe]["exec"]["command"] == ["/opt/twinlog/bin/health"]
        else:
            assert container[probe]["httpGet"] == {"path": "/health", "port": "http"}
    for service in (each for each in applied if each["kind"] == "Service"):
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"]
    for policy in (each for each in applied if each["kind"] == "NetworkPolicy"):
        for rule in policy["spec"]["ingress"]:
            assert {each["port"] for each in rule.get("ports", ())} <= ports.keys()
    (monitor,) = _documents(HOME / "podmonitor.yaml")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] in ports
    labels = {each["targetLabel"] for each in endpoint["relabelings"]}
    assert {"strimzi_io_kind", "strimzi_io_cluster", "namespace", "kubernetes_pod_name"} == labels


def test_the_token_is_mounted_only_if_the_port_is_closed(applied: list[Tree]) -> None:
    """A process that is compromised through its HTTP port must not have permissions in Kubernetes."""
    pod = _one(applied, "Deployment")["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    account = _one(applied, "ServiceAccount")
    closed = _given(container["args"])["host"] == "127.0.0.1"
    assert pod["spec"]["automountServiceAccountToken"] is account["automountServiceAccountToken"] is closed
    policies = [each for each in applied if each["kind"] == "NetworkPolicy"]
    opened = {port["port"] for each in policies for rule in each["spec"]["ingress"] for port in rule.get("ports", ())}
    served = {port["name"] for each in applied if each["kind"] == "Service" for port in each["spec"]["ports"]}
    assert ("http" in opened, "http" in served) == (not closed, not closed)
    assert pod["metadata"]["annotations"]["prometheus.io/scrape"] == ("false" if closed else "true")


def test_restricted_namespace_and_read_only_pods(applied: list[Tree]) -> None:
    namespace = _one(applied, "Namespace")["metadata"]
    assert namespace["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for folder in ("embedded", "executors"):
        (layout,) = _documents(HOME / folder / "kustomization.yaml")
        assert layout["namespace"] == namespace["name"] == NAMESPACE
    pods = [_one(applied, "Deployment")["spec"]["template"], *_documents(HOME / "executors" / "executor.yaml")]
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True


def test_configuration_and_secrets_are_mounted(applied: list[Tree], tmp_path: Path, module: Load) -> None:
    pod = _one(applied, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = _mounts(pod, container)
    given = _given(container["args"])
    named = set(re.findall(r"secretName: (\S+)", SEED.read_text()))
    assert {name for kind, name in mounts.values() if kind == "secret"} == named
    for path, (kind, name) in mounts.items():
        if kind == "secret":
            assert path == f"{given['secrets']}/{name}"
    folder, _, key = given["paths"][0].rpartition("/")
    assert mounts[folder] == ("configMap", "twinlog-config")
    assert (HOME / "embedded" / key).is_file()
    assert all(name in _generated("executors") for kind, name in mounts.values() if kind == "configMap")
    assert all(mount.get("readOnly") for mount in container["volumeMounts"] if mount["mountPath"] != "/tmp")

    # The same files, mounted as in the pod, are a valid configuration.
    mount = module("kubernetes", "secrets_folder").mount
    files = Authority(tmp_path / "ca").client("source-user")
    keys = {"user.crt": files.certificate.read_bytes(), "user.key": files.key.read_bytes(), "ca.crt": b"-"}
    for name in named:
        mount(tmp_path / "secrets", name, keys)
    text = SEED.read_text().replace("#source route#", "a:9093").replace("#Dest service#", "b:9093")
    (tmp_path / key).write_text(text)
    arguments = ["show", str(tmp_path / key), "--secrets", str(tmp_path / "secrets"), "--set"]
    shown = CliRunner().invoke(config, arguments)
    assert shown.exit_code == 0, shown.output
    assert "warning" not in shown.output


def test_executors_match_their_driver() -> None:
    applied = _applied("executors")
    driver = _one(applied, "Deployment")["spec"]["template"]["spec"]
    (template,) = _documents(HOME / "executors" / "executor.yaml")
    executor = template["spec"]
    own = f"{MOUNTED}/executor"
    assert _mounts(driver, driver["containers"][0])[own] == ("configMap", "twinlog-executor")
    assert _mounts(executor, executor["containers"][0]) == {}  # executors need no secrets
    assert executor["securityContext"] == driver["securityContext"]

    settings = dict(each.partition("=")[::2] for each in _given(driver["containers"][0]["args"])["conf"])
    assert settings["spark.kubernetes.container.image"] == _image() == executor["containers"][0]["image"]
    assert settings["spark.kubernetes.executor.podTemplateFile"] == f"{own}/executor.yaml"
    assert settings["spark.kubernetes.executor.podTemplateContainerName"] == executor["containers"][0]["name"]
    (service,) = (
        each for each in applied if each["metadata"]["name"] == "twinlog-driver" and each["kind"] == "Service"
    )
    assert settings["spark.driver.host"].split(".")[0] == service["metadata"]["name"]
    ports = {each["name"]: str(each["port"]) for each in service["spec"]["ports"]}
    assert ports == {"driver": settings["spark.driver.port"], "blocks": settings["spark.driver.blockManager.port"]}
    known = {each["name"] for each in driver["containers"][0]["env"]}
    assert set(re.findall(r"\$\((\w+)\)", " ".join(settings.values()))) <= known

    without_one = (int(settings["spark.executor.instances"]) - 1) * int(settings["spark.executor.cores"])
    assert without_one >= int(re.findall(r"tasksMax: (\d+)", SEED.read_text())[0])
    role, binding = _one(applied, "Role"), _one(applied, "RoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == driver["serviceAccountName"]
    assert (
        driver["automountServiceAccountToken"]
        is _one(applied, "ServiceAccount")["automountServiceAccountToken"]
        is True
    )


def test_spark_settings_exist() -> None:
    """Spark ignores unknown keys, so each of them must occur in Spark's classes."""
    settings = _given(_one(_applied("executors"), "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"])
    unknown = {each.partition("=")[0].encode() for each in settings["conf"]}
    jars = Path(pyspark.__file__).parent / "jars"
    for name in ("spark-kubernetes_", "spark-core_"):
        (jar,) = jars.glob(f"{name}*.jar")
        with zipfile.ZipFile(jar) as classes:
            for entry in classes.namelist():
                if re.search(r"/(Config|Network|package)\$?\.class$", entry):
                    content = classes.read(entry)
                    unknown = {key for key in unknown if key not in content}
    assert not unknown


@pytest.mark.spark
def test_sparks_requests_to_kubernetes(tmp_path: Path) -> None:
    """With these settings and this template, Spark creates valid pods, and the role allows all its requests."""
    applied = _applied("executors")
    args = _one(applied, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    settings = dict(each.partition("=")[::2] for each in _given(args)["conf"])
    known = {"$(POD_NAME)": "twinlog-0", "$(POD_NAMESPACE)": NAMESPACE}
    settings = {key: re.sub(r"\$\(\w+\)", lambda found: known[found[0]], text) for key, text in settings.items()}
    here = {"spark.driver.host": "127.0.0.1", "spark.driver.port": "0", "spark.driver.blockManager.port": "0"}
    here["spark.kubernetes.executor.podTemplateFile"] = str(HOME / "executors" / "executor.yaml")
    here["spark.scheduler.maxRegisteredResourcesWaitingTime"] = "1s"  # no executor will register
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(settings | here))
    command = [sys.executable, str(Path(__file__).with_name("kubernetes_api.py")), str(tmp_path / "spark"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    requests = json.loads(done.stdout)

    pods = [body for _, _, body in requests if body and body["kind"] == "Pod"]
    assert len(pods) == int(settings["spark.executor.instances"])
    (template,) = _documents(HOME / "executors" / "executor.yaml")
    for pod in pods:
        assert template["metadata"]["labels"].items() <= pod["metadata"]["labels"].items()
        assert [each["name"] for each in pod["metadata"]["ownerReferences"]] == ["twinlog-0"]
        (container,) = pod["spec"]["containers"]
        assert (container["image"], container["args"]) == (_image(), ["executor"])
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert pod["spec"]["securityContext"] == template["spec"]["securityContext"]
        assert container["resources"]["requests"]["cpu"] == settings["spark.kubernetes.executor.request.cores"]
    (rule,) = _one(applied, "Role")["rules"]
    assert rule["resources"] == ["pods"]
    for verb, path, _ in requests:
        resource = path.partition("?")[0].split("/")[5]
        assert (verb in rule["verbs"], resource in rule["resources"]) == (True, True), (verb, path)
    # Spark deletes a single executor only when it fails, which does not happen here.
    assert set(rule["verbs"]) == {verb for verb, _, _ in requests} | {"delete"}
    if importlib.util.find_spec("kubernetes_validate"):
        validate = importlib.import_module("kubernetes_validate").validate
        for pod in pods:
            validate(pod, KUBERNETES, strict=True)


# Reading the manifests


def _documents(file: Path) -> list[Tree]:
    return list(yaml.safe_load_all(file.read_text()))


def _applied(folder: str) -> list[Tree]:
    (layout,) = _documents(HOME / folder / "kustomization.yaml")
    found: list[Tree] = []
    for name in layout["resources"]:
        path = (HOME / folder / name).resolve()
        found += _applied(path.name) if path.is_dir() else _documents(path)
    for patch in layout.get("patches", ()):
        (change,) = _documents(HOME / folder / patch["path"])
        key = (change["kind"], change["metadata"]["name"])
        (index,) = (n for n, each in enumerate(found) if (each["kind"], each["metadata"]["name"]) == key)
        if change.get("$patch") == "delete":
            del found[index]
        else:
            found[index] = _merged(found[index], change)
    return found


def _merged(here: Any, change: Any, key: str = "") -> Any:
    """A strategic merge patch, as far as these files need it."""
    if isinstance(here, dict) and isinstance(change, dict):
        merged = here | {
            name: _merged(here[name], each, name) if name in here else each for name, each in change.items()
        }
        return {name: each for name, each in merged.items() if each is not None}
    if isinstance(here, list) and key in BY and BY[key] in change[0]:
        by = BY[key]
        known = {each[by]: each for each in change}
        items = [_merged(each, known.pop(each[by]), by) if each[by] in known else each for each in here]
        return [*known.values(), *items]
    return change


def _generated(folder: str) -> list[str]:
    (layout,) = _documents(HOME / folder / "kustomization.yaml")
    below = [name for each in layout["resources"] if each == "../embedded" for name in _generated("embedded")]
    for each in layout["configMapGenerator"]:
        assert all((HOME / folder / file).is_file() for file in each["files"])
    return [*below, *(each["name"] for each in layout["configMapGenerator"])]


def _image() -> str:
    (layout,) = _documents(HOME / "embedded" / "kustomization.yaml")
    (image,) = layout["images"]
    return f"{image['newName']}:{image['newTag']}"


def _one(applied: list[Tree], kind: str) -> Tree:
    (found,) = (each for each in applied if each["kind"] == kind)
    return found


def _mounts(pod: Tree, container: Tree) -> dict[str, tuple[str, str]]:
    """The mounted config maps and secrets, by path."""

    def found() -> Iterator[tuple[str, tuple[str, str]]]:
        volumes = {each["name"]: each for each in pod["volumes"]}
        for mount in container["volumeMounts"]:
            volume = volumes[mount["name"]]
            if "secret" in volume:
                yield mount["mountPath"], ("secret", volume["secret"]["secretName"])
            elif "configMap" in volume:
                yield mount["mountPath"], ("configMap", volume["configMap"]["name"])

    return dict(found())


def _given(args: list[str]) -> Tree:
    """As parsed by the real command, which rejects unknown options."""
    assert args[0] in cli.commands
    found = run.make_context("run", args[1:], resilient_parsing=False).params
    return {**found, "secrets": str(found["secrets"])}
