"""Strimzi's KafkaMirrorMaker2 (v1beta2 and v1): the connectors and the worker that its operator would make of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from twinlog.config.flows import State
from twinlog.config.problems import Problems
from twinlog.config.providers import (
    DirectoryProvider,
    EnvironmentProvider,
    FileProvider,
    Provider,
    Providers,
    declared_providers,
)
from twinlog.config.secrets import MountedProvider, Secrets, SecretsProvider
from twinlog.config.settings import BYTE_ARRAY, MIRROR
from twinlog.config.strimzi_security import security
from twinlog.config.values import Origin, Value, derived
from twinlog.config.yamltree import Tree
from twinlog.model import Flow

# What an operator may not set in a cluster's `config`: it follows from other fields.
_FORBIDDEN_V1 = ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
_FORBIDDEN = (
    "ssl.", "sasl.", "security.", "listeners", "plugin.path", "rest.", "bootstrap.servers",
    "consumer.interceptor.classes", "producer.interceptor.classes",
)  # fmt: skip
_ALLOWED = ("ssl.endpoint.identification.algorithm", "ssl.cipher.suites", "ssl.protocol", "ssl.enabled.protocols")
_OF_CONNECTOR = ("name", "connector.class", "tasks.max", "connector.plugin.version")

_PODS = (
    "version", "replicas", "image", "clientRackInitImage", "resources", "livenessProbe", "readinessProbe", "jvmOptions",
    "jmxOptions", "template", "logging", "rack", "metricsConfig", "tracing", "mirrors",
)  # fmt: skip
_CLUSTER = ("alias", "bootstrapServers", "tls", "authentication", "config")
_TARGET = (*_CLUSTER, "groupId", "configStorageTopic", "offsetStorageTopic", "statusStorageTopic")
_PATTERNS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
_CONNECTORS = {
    "sourceConnector": "MirrorSourceConnector",
    "checkpointConnector": "MirrorCheckpointConnector",
    "heartbeatConnector": "MirrorHeartbeatConnector",
}
_CARE = ("autoRestart", "listOffsets", "alterOffsets")  # how the operator looks after a connector: nothing to read here
_STORAGE = {
    "group.id": ("groupId", "mirrormaker2-cluster"),
    "config.storage.topic": ("configStorageTopic", "mirrormaker2-cluster-configs"),
    "offset.storage.topic": ("offsetStorageTopic", "mirrormaker2-cluster-offsets"),
    "status.storage.topic": ("statusStorageTopic", "mirrormaker2-cluster-status"),
}


@dataclass(frozen=True, slots=True)
class Mirror:
    """One of the resource's mirrors, as maps."""

    flow: Flow
    origin: Origin
    worker: dict[str, Value]
    connectors: dict[str, dict[str, Value]]
    states: dict[str, State]
    providers: Providers


def is_mirror_maker(tree: Tree) -> bool:
    return bool(tree.get("kind").content == "KafkaMirrorMaker2")


def mirrors(resource: Tree, secrets_folder: Path | None, problems: Problems) -> Iterator[Mirror]:
    group, _, version = resource.get("apiVersion").text().partition("/")
    if group != "kafka.strimzi.io" or version not in ("v1", "v1beta2"):
        resource.get("apiVersion").complain("expected kafka.strimzi.io/v1 or kafka.strimzi.io/v1beta2")
        return
    spec = resource.get("spec")
    secrets, mounts = Secrets(secrets_folder), _mounts(spec)
    old = version == "v1beta2"
    if old:
        spec.know(*_PODS, "clusters", "connectCluster", "externalConfiguration")
        clusters = {cluster.get("alias").required(): cluster for cluster in spec.get("clusters").each()}
        target = clusters.get(spec.get("connectCluster").required())
        if target is None:
            spec.get("connectCluster").complain(
                f"no such alias in spec.clusters: {', '.join(clusters) or 'it is empty'}"
            )
            return
    else:
        spec.know(*_PODS, "target")
        clusters = {}
        target = spec.get("target")
        if not target:
            target.complain("is missing")
            return
    if spec.get("replicas").text() == "0":
        problems.warn(spec.get("replicas").origin, "spec.replicas = 0: Strimzi's operator would run no connector")
    for field in ("rack", "tracing"):
        if tree := spec.get(field):
            problems.note(tree.origin, f"{tree.path} is for Strimzi's pods: it has no effect here")
    if not spec.get("mirrors").content:
        spec.get("mirrors").complain("is missing")
    for mirror in spec.get("mirrors").each():
        source = _source(mirror, clusters, target, old=old)
        if source is not None:
            yield _mirror(mirror, source, target, secrets, mounts, problems, old=old)


def _connector_fields(*, old: bool) -> dict[str, str]:
    """v1 dropped the heartbeat connector: it is run as a KafkaConnector there."""
    return {field: kind for field, kind in _CONNECTORS.items() if old or kind != "MirrorHeartbeatConnector"}


def _source(mirror: Tree, clusters: dict[str, Tree], target: Tree, *, old: bool) -> Tree | None:
    if not old:
        mirror.know("source", *_connector_fields(old=old), *(field for field in _PATTERNS if "Blacklist" not in field))
        if not mirror.get("source"):
            mirror.get("source").complain("is missing")
            return None
        return mirror.get("source")
    mirror.know("sourceCluster", "targetCluster", *_CONNECTORS, *_PATTERNS)
    named = mirror.get("targetCluster")
    if named.required() != target.get("alias").text():
        named.complain(f"must be the connectCluster {target.get('alias').text()!r}: that is where the records go")
    source = clusters.get(mirror.get("sourceCluster").required())
    if source is None:
        mirror.get("sourceCluster").complain(f"no such alias in spec.clusters: {', '.join(clusters)}")
    return source


def _mirror(
    mirror: Tree, source: Tree, target: Tree, secrets: Secrets, mounts: dict[str, str], problems: Problems, *, old: bool
) -> Mirror:
    flow = Flow(source.get("alias").required(), target.get("alias").required())
    source.know(*(_TARGET if old else _CLUSTER))
    target.know(*_TARGET)
    base = {
        **_side("target", target, secrets, problems, old=old),
        **_side("source", source, secrets, problems, old=old),
    }
    connectors: dict[str, dict[str, Value]] = {}
    states: dict[str, State] = {}
    for field, kind in _connector_fields(old=old).items():
        spec = mirror.get(field)
        if not spec and not (isinstance(mirror.content, dict) and field in mirror.content):
            continue
        spec.know("tasksMax", "version", "config", "state", *_CARE, *(("pause",) if old else ()))
        connectors[kind] = base | _connector(flow, kind, spec, mirror, problems, old=old)
        states[kind] = _state(spec, old=old)
    worker = _worker(target, secrets, problems, old=old)
    return Mirror(flow, mirror.origin, worker, connectors, states, _providers(worker, secrets, mounts, problems))


def _providers(worker: dict[str, Value], secrets: Secrets, mounts: dict[str, str], problems: Problems) -> Providers:
    """Strimzi's own, which every resource may use by name, and those that the target's `config` declares."""
    from_secrets = SecretsProvider(secrets)
    files, folders = (
        MountedProvider(FileProvider(), secrets, mounts),
        MountedProvider(DirectoryProvider(), secrets, mounts),
    )
    own: dict[str, Provider] = {
        "strimzienv": EnvironmentProvider(),
        "strimzifile": files,
        "strimzidir": folders,
        "strimzisecrets": from_secrets,
    }
    classes: dict[str, Provider] = {
        "io.strimzi.kafka.KubernetesSecretConfigProvider": from_secrets,
        "io.strimzi.kafka.EnvVarConfigProvider": EnvironmentProvider(),
        "org.apache.kafka.common.config.provider.FileConfigProvider": files,
        "org.apache.kafka.common.config.provider.DirectoryConfigProvider": folders,
    }
    return Providers({**own, **declared_providers(worker, problems, classes).by_name})


def _mounts(spec: Tree) -> dict[str, str]:
    """v1beta2's externalConfiguration: the folder in the pod -> the secret that is mounted there."""
    found = {}
    for volume in spec.get("externalConfiguration").get("volumes").each():
        secret = volume.get("secret").get("secretName").text() or volume.get("secret").get("name").text()
        if secret:
            found[f"/opt/kafka/external-configuration/{volume.get('name').required()}"] = secret
    return found


def _connector(flow: Flow, kind: str, spec: Tree, mirror: Tree, problems: Problems, *, old: bool) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for key, tree in spec.get("config").items():
        if key in _OF_CONNECTOR:
            problems.warn(tree.origin, f"{tree.path}: not allowed here: Strimzi sets {key} itself")
        elif tree:
            made[key] = Value(key, tree.text(), tree.origin)
    # Of an old and a new field for the same thing the new one, further up in the table, wins.
    for field, key in reversed(_PATTERNS.items()):
        if (old or "Blacklist" not in field) and (tree := mirror.get(field)):
            made[key] = Value(key, tree.text(), tree.origin)
            if "Blacklist" in field:
                problems.note(
                    tree.origin, f"{tree.path} is an old name: it is read as {field.replace('Blacklist', 'Exclude')}"
                )
    made["name"] = derived("name", f"{flow}.{kind}", f"from {flow}")
    made["connector.class"] = derived("connector.class", MIRROR + kind, f"from {spec.path}")
    if version := spec.get("version"):
        made["connector.plugin.version"] = Value("connector.plugin.version", version.text(), version.origin)
    if tasks := spec.get("tasksMax"):
        made["tasks.max"] = Value("tasks.max", tasks.text(), tasks.origin)
    return made


def _side(side: str, cluster: Tree, secrets: Secrets, problems: Problems, *, old: bool) -> dict[str, Value]:
    values = _connection(cluster, secrets, problems)
    values["alias"] = Value("alias", cluster.get("alias").required(), cluster.get("alias").origin)
    values |= _config(cluster, problems, old=old)
    return {f"{side}.cluster.{key}": value.named(f"{side}.cluster.{key}") for key, value in values.items()}


def _connection(cluster: Tree, secrets: Secrets, problems: Problems) -> dict[str, Value]:
    bootstrap = cluster.get("bootstrapServers")
    values = security(cluster, secrets, problems)
    if bootstrap:
        values["bootstrap.servers"] = Value("bootstrap.servers", bootstrap.text().strip(), bootstrap.origin)
    return values


def _config(cluster: Tree, problems: Problems, *, old: bool) -> dict[str, Value]:
    forbidden = _FORBIDDEN if old else (*_FORBIDDEN, *_FORBIDDEN_V1)
    made = {}
    for key, tree in cluster.get("config").items():
        if key.startswith(forbidden) and key not in _ALLOWED:
            problems.warn(
                tree.origin, f"{tree.path}: Strimzi ignores it here: it follows from other fields of the cluster"
            )
        elif tree:
            made[key] = Value(key, tree.text(), tree.origin)
    return made


def _worker(target: Tree, secrets: Secrets, problems: Problems, *, old: bool) -> dict[str, Value]:
    made = {
        f"{part}.converter": derived(f"{part}.converter", BYTE_ARRAY, "Strimzi's default")
        for part in ("key", "value", "header")
    }
    connection = _connection(target, secrets, problems)
    made |= connection
    for client in ("producer", "consumer", "admin"):
        made |= {f"{client}.{key}": value.named(f"{client}.{key}") for key, value in connection.items()}
    made |= _config(target, problems, old=old)
    for key, (field, default) in _STORAGE.items():
        if tree := target.get(field):
            made[key] = Value(key, tree.text(), tree.origin)
        elif old:
            made.setdefault(key, derived(key, default, "Strimzi's default"))
        else:
            tree.complain("is missing")
    return made


def _state(spec: Tree, *, old: bool) -> State:
    if state := spec.get("state"):
        if state.text() not in ("running", "paused", "stopped"):
            state.complain(f"{state.text()!r}: expected running, paused or stopped")
            return "running"
        return cast("State", state.text())
    return "paused" if old and spec.get("pause").text() == "true" else "running"
