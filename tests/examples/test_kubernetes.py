"""examples/kubernetes: the play as a user starts it, and manifests that agree with each other and with the command."""

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

from twinlog.config.secrets import Secrets
from twinlog.lab.certificates import Authority
from twinlog.surface.cli import cli, config, run

ROOT = Path(__file__).parents[2]
HOME = ROOT / "examples" / "kubernetes"
SEED = ROOT / "tests" / "config" / "seeds" / "mirrormaker2.yaml"
RESOURCE = HOME / "embedded" / "mirrormaker2.yaml"
MOUNTED = "/etc/twinlog"
KUBERNETES = "1.33"
BY = {"containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath", "ports": "containerPort"}

Tree = dict[str, Any]
Load = Callable[[str, str], ModuleType]


@pytest.mark.broker
@pytest.mark.spark
def test_the_play(play: Callable[..., str]) -> None:
    said = play("kubernetes", "--seconds", "5")
    assert "7 partitions, after" in said
    assert "under the same names" in said
    assert "/health, for Kubernetes' probes: healthy" in said
    assert re.search(r"went on on dest: [1-9]\d* records there, none was lost, 0 were read again", said)


# The seed's file, and secrets


def test_the_resource_is_the_seed_s() -> None:
    assert RESOURCE.read_text() == SEED.read_text()


def test_secrets_lie_as_a_pod_sees_them(tmp_path: Path, module: Load) -> None:
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
    """What `kubectl apply -k` would apply, but for the generated config maps."""
    return _applied(request.param)


def test_manifests_are_valid(applied: list[Tree]) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate").validate
    template = _documents(HOME / "executors" / "executor.yaml")
    for each in [*applied, *template]:
        validate(each, KUBERNETES, strict=True)


@pytest.mark.parametrize("folder", ["embedded", "executors"])
def test_kustomize_makes_the_same(folder: str) -> None:
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
    for place, each in made.items():
        assert each["metadata"].pop("namespace") == "kafka-dest"
        if place[0] == "Deployment":
            (container,) = each["spec"]["template"]["spec"]["containers"]
            assert container["image"] == _image()
            container["image"] = "twinlog"
            for volume in each["spec"]["template"]["spec"]["volumes"]:
                if "configMap" in volume:  # another content has another name, so the pod is made anew
                    plain = {name: key for key, name in hashed.items()}
                    volume["configMap"]["name"] = plain[volume["configMap"]["name"]]
        assert each == ours.pop(place)
    assert not ours


def test_whom_a_selector_means(applied: list[Tree]) -> None:
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


def test_ports_and_probes_agree_with_the_command(applied: list[Tree]) -> None:
    pod = _one(applied, "Deployment")["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    given = _given(container["args"])
    assert ports["http"] == given["port"] == int(pod["metadata"]["annotations"]["prometheus.io/port"])
    assert given["host"] == "0.0.0.0"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
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


def test_the_pod_finds_its_configuration_and_every_secret(applied: list[Tree], tmp_path: Path, module: Load) -> None:
    pod = _one(applied, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    places = _places(pod, container)
    given = _given(container["args"])
    named = set(re.findall(r"secretName: (\S+)", SEED.read_text()))
    assert {name for kind, name in places.values() if kind == "secret"} == named
    for path, (kind, name) in places.items():
        if kind == "secret":
            assert path == f"{given['secrets']}/{name}"
    folder, _, key = given["paths"][0].rpartition("/")
    assert places[folder] == ("configMap", "twinlog-config")
    assert (HOME / "embedded" / key).is_file()
    assert all(name in _generated("executors") for kind, name in places.values() if kind == "configMap")
    assert all(mount.get("readOnly") for mount in container["volumeMounts"] if mount["mountPath"] != "/tmp")

    # The same files, laid out as the pod mounts them, are a configuration without a mistake.
    mount = module("kubernetes", "secrets_folder").mount
    files = Authority(tmp_path / "ca").client("source-user")
    keys = {"user.crt": files.certificate.read_bytes(), "user.key": files.key.read_bytes(), "ca.crt": b"-"}
    for name in named:
        mount(tmp_path / "secrets", name, keys)
    text = SEED.read_text().replace("#source route#", "a:9093").replace("#Dest service#", "b:9093")
    (tmp_path / key).write_text(text)
    words = ["show", str(tmp_path / key), "--secrets", str(tmp_path / "secrets"), "--set"]
    shown = CliRunner().invoke(config, words)
    assert shown.exit_code == 0, shown.output
    assert "warning" not in shown.output


def test_executors_fit_their_driver() -> None:
    applied = _applied("executors")
    driver = _one(applied, "Deployment")["spec"]["template"]["spec"]
    (template,) = _documents(HOME / "executors" / "executor.yaml")
    executor = template["spec"]
    own = f"{MOUNTED}/executor"
    assert _places(driver, driver["containers"][0])[own] == ("configMap", "twinlog-executor")
    assert _places(executor, executor["containers"][0]) == {}  # no secret lies in a pod that does not need it
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


def test_spark_knows_its_settings() -> None:
    """Spark ignores a key that it does not know; so every one must stand in its classes."""
    settings = _given(_one(_applied("executors"), "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"])
    wanted = {each.partition("=")[0].encode() for each in settings["conf"]}
    jars = Path(pyspark.__file__).parent / "jars"
    for name in ("spark-kubernetes_", "spark-core_"):
        (jar,) = jars.glob(f"{name}*.jar")
        with zipfile.ZipFile(jar) as classes:
            for entry in classes.namelist():
                if re.search(r"/(Config|Network|package)\$?\.class$", entry):
                    content = classes.read(entry)
                    wanted = {key for key in wanted if key not in content}
    assert not wanted


@pytest.mark.spark
def test_what_spark_asks_of_kubernetes(tmp_path: Path) -> None:
    """Spark itself, with these settings and this template: its pods are valid, and the role allows all that it does."""
    applied = _applied("executors")
    args = _one(applied, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    settings = dict(each.partition("=")[::2] for each in _given(args)["conf"])
    known = {"$(POD_NAME)": "twinlog-0", "$(POD_NAMESPACE)": "kafka-dest"}
    settings = {key: re.sub(r"\$\(\w+\)", lambda found: known[found[0]], text) for key, text in settings.items()}
    here = {"spark.driver.host": "127.0.0.1", "spark.driver.port": "0", "spark.driver.blockManager.port": "0"}
    here["spark.kubernetes.executor.podTemplateFile"] = str(HOME / "executors" / "executor.yaml")
    here["spark.scheduler.maxRegisteredResourcesWaitingTime"] = "1s"  # nobody will come
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(settings | here))
    words = [sys.executable, str(Path(__file__).with_name("kubernetes_api.py")), str(tmp_path / "spark"), str(file)]
    played = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert played.returncode == 0, played.stderr
    asked = json.loads(played.stdout)

    pods = [body for _, _, body in asked if body and body["kind"] == "Pod"]
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
    for verb, path, _ in asked:
        resource = path.partition("?")[0].split("/")[5]
        assert (verb in rule["verbs"], resource in rule["resources"]) == (True, True), (verb, path)
    if importlib.util.find_spec("kubernetes_validate"):
        validate = importlib.import_module("kubernetes_validate").validate
        for pod in pods:
            validate(pod, KUBERNETES, strict=True)


# How they are read


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
        place = (change["kind"], change["metadata"]["name"])
        (at,) = (n for n, each in enumerate(found) if (each["kind"], each["metadata"]["name"]) == place)
        found[at] = _merged(found[at], change)
    return found


def _merged(here: Any, change: Any, key: str = "") -> Any:
    """A strategic merge, as far as these files need one."""
    if isinstance(here, dict) and isinstance(change, dict):
        return here | {name: _merged(here[name], each, name) if name in here else each for name, each in change.items()}
    if isinstance(here, list) and key in BY and BY[key] in change[0]:
        by = BY[key]
        known = {each[by]: each for each in change}
        merged = [_merged(each, known.pop(each[by]), by) if each[by] in known else each for each in here]
        return [*known.values(), *merged]
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


def _places(pod: Tree, container: Tree) -> dict[str, tuple[str, str]]:
    """Where which config map or secret is mounted."""

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
    """As the real command understands them; a word that it does not know is an error."""
    assert args[0] in cli.commands
    found = run.make_context("run", args[1:], resilient_parsing=False).params
    return {**found, "secrets": str(found["secrets"])}
