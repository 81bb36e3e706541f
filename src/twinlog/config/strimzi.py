"""Strimzi's KafkaMirrorMaker2 (v1beta2 and v1): the connectors and worker that Strimzi's operator would create."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from twinlog.config.flows import State
from twinlog.config.kubernetes_secrets import MountedProvider, Secrets, SecretsProvider
from twinlog.config.problems import Problems
from twinlog.config.providers import (
    DirectoryProvider,
    EnvironmentProvider,
    FileProvider,
    Provider,
    Providers,
    declared_providers,
)
from twinlog.config.settings import BYTE_ARRAY, MIRROR
from twinlog.config.strimzi_security import security
from twinlog.config.values import Origin, Value, derived
from twinlog.config.yaml_lines import Tree
from twinlog.model import Flow

# Not allowed in a cluster's `config`: derived from other fields.
_FORBIDDEN_V1 = ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
_FORBIDDEN = (
    "ssl.", "sasl.", "security.", "listeners", "plugin.path", "rest.", "bootstrap.servers",
    "consumer.interceptor.classes", "producer.interceptor.classes",
)  # fmt: skip
_ALLOWED = ("ssl.endpoint.identification.algorithm", "ssl.cipher.suites", "ssl.protocol", "ssl.enabled.protocols")
_SET_BY_STRIMZI = ("name", "connector.class", "tasks.max", "connector.plugin.version")

_POD_FIELDS = (
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
_OPERATOR_FIELDS = ("autoRestart", "listOffsets", "alterOffsets")  # for Strimzi's operator only
_STORAGE = {
    "group.id": ("groupId", "mirrormaker2-cluster"),
    "config.storage.topic": ("configStorageTopic", "mirrormaker2-cluster-configs"),
    "offset.storage.topic": ("offsetStorageTopic", "mirrormaker2-cluster-offsets"),
    "status.storage.topic": ("statusStorageTopic", "mirrormaker2-cluster-status"),
}


@dataclass(frozen=True, slots=True)
class Mirror:
    """One mirror of a resource, as maps."""

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
        spec.warn_unknown(*_POD_FIELDS, "clusters", "connectCluster", "externalConfiguration")
        clusters = {cluster.get("alias").required(): cluster for cluster in spec.get("clusters").each()}
        target = clusters.get(spec.get("connectCluster").required())
        if target is None:
            spec.get("connectCluster").complain(_unknown_alias(clusters))
            return
    else:
        spec.warn_unknown(*_POD_FIELDS, "target")
        clusters = {}
        target = spec.get("target")
        if not target:
            target.complain_missing()
            return
    if spec.get("replicas").text() == "0":
        problems.warn(spec.get("replicas").origin, "spec.replicas = 0: ignored, with Strimzi no connector would run")
    for field in ("rack", "tracing"):
        if tree := spec.get(field):
            problems.note(tree.origin, f"{tree.path} has no effect: it applies to Strimzi's pods")
    if not spec.get("mirrors").content:
        spec.get("mirrors").complain_missing()
    for mirror in spec.get("mirrors").each():
        source = _source(mirror, clusters, target, old=old)
        if source is not None:
            yield _mirror(mirror, source, target, secrets, mounts, problems, old=old)


def _connector_fields(*, old: bool) -> dict[str, str]:
    """Without the heartbeat connector in v1, which removed it."""
    return {field: kind for field, kind in _CONNECTORS.items() if old or kind != "MirrorHeartbeatConnector"}


def _unknown_alias(clusters: dict[str, Tree]) -> str:
    return f"no such alias in spec.clusters; use one of {', '.join(clusters) or 'none, the list is empty'}"


def _source(mirror: Tree, clusters: dict[str, Tree], target: Tree, *, old: bool) -> Tree | None:
    if not old:
        mirror.warn_unknown(
            "source", *_connector_fields(old=old), *(field for field in _PATTERNS if "Blacklist" not in field)
        )
        if not mirror.get("source"):
            mirror.get("source").complain_missing()
            return None
        return mirror.get("source")
    mirror.warn_unknown("sourceCluster", "targetCluster", *_CONNECTORS, *_PATTERNS)
    named = mirror.get("targetCluster")
    if named.required() != target.get("alias").text():
        named.complain(
            f"not the cluster that records are written to; use connectCluster {target.get('alias').text()!r}"
        )
    source = clusters.get(mirror.get("sourceCluster").required())
    if source is None:
        mirror.get("sourceCluster").complain(_unknown_alias(clusters))
    return source


def _mirror(
    mirror: Tree, source: Tree, target: Tree, secrets: Secrets, mounts: dict[str, str], problems: Problems, *, old: bool
) -> Mirror:
    flow = Flow(source.get("alias").required(), target.get("alias").required())
    source.warn_unknown(*(_TARGET if old else _CLUSTER))
    target.warn_unknown(*_TARGET)
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
        spec.warn_unknown("tasksMax", "version", "config", "state", *_OPERATOR_FIELDS, *(("pause",) if old else ()))
        connectors[kind] = base | _connector(flow, kind, spec, mirror, problems, old=old)
        states[kind] = _state(spec, old=old)
    worker = _worker(target, secrets, problems, old=old)
    return Mirror(flow, mirror.origin, worker, connectors, states, _providers(worker, secrets, mounts, problems))


def _providers(worker: dict[str, Value], secrets: Secrets, mounts: dict[str, str], problems: Problems) -> Providers:
    """Strimzi's built-in providers, and those that the target's `config` declares."""
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
    """v1beta2's externalConfiguration: folder in the pod -> mounted secret."""
    found = {}
    for volume in spec.get("externalConfiguration").get("volumes").each():
        secret = volume.get("secret").get("secretName").text() or volume.get("secret").get("name").text()
        if secret:
            found[f"/opt/kafka/external-configuration/{volume.get('name').required()}"] = secret
    return found


def _connector(flow: Flow, kind: str, spec: Tree, mirror: Tree, problems: Problems, *, old: bool) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for key, tree in spec.get("config").items():
        if key in _SET_BY_STRIMZI:
            problems.warn(tree.origin, f"{tree.path}: ignored, Strimzi sets {key} itself; remove it")
        elif tree:
            values[key] = Value(key, tree.text(), tree.origin)
    # A new field, further up in the table, overrides the old one.
    for field, key in reversed(_PATTERNS.items()):
        if (old or "Blacklist" not in field) and (tree := mirror.get(field)):
            values[key] = Value(key, tree.text(), tree.origin)
            if "Blacklist" in field:
                problems.note(
                    tree.origin, f"{tree.path} is an old name; it is read as {field.replace('Blacklist', 'Exclude')}"
                )
    values["name"] = derived("name", f"{flow}.{kind}", f"from {flow}")
    values["connector.class"] = derived("connector.class", MIRROR + kind, f"from {spec.path}")
    if version := spec.get("version"):
        values["connector.plugin.version"] = Value("connector.plugin.version", version.text(), version.origin)
    if tasks := spec.get("tasksMax"):
        values["tasks.max"] = Value("tasks.max", tasks.text(), tasks.origin)
    return values


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
    values = {}
    for key, tree in cluster.get("config").items():
        if key.startswith(forbidden) and key not in _ALLOWED:
            problems.warn(tree.origin, f"{tree.path}: ignored by Strimzi; use the other fields of the cluster instead")
        elif tree:
            values[key] = Value(key, tree.text(), tree.origin)
    return values


def _worker(target: Tree, secrets: Secrets, problems: Problems, *, old: bool) -> dict[str, Value]:
    values = {
        f"{part}.converter": derived(f"{part}.converter", BYTE_ARRAY, "Strimzi's default")
        for part in ("key", "value", "header")
    }
    connection = _connection(target, secrets, problems)
    values |= connection
    for client in ("producer", "consumer", "admin"):
        values |= {f"{client}.{key}": value.named(f"{client}.{key}") for key, value in connection.items()}
    values |= _config(target, problems, old=old)
    for key, (field, default) in _STORAGE.items():
        if tree := target.get(field):
            values[key] = Value(key, tree.text(), tree.origin)
        elif old:
            values.setdefault(key, derived(key, default, "Strimzi's default"))
        else:
            tree.complain_missing()
    return values


def _state(spec: Tree, *, old: bool) -> State:
    if state := spec.get("state"):
        if state.text() not in ("running", "paused", "stopped"):
            state.complain(f"{state.text()!r}: expected running, paused or stopped")
            return "running"
        return cast("State", state.text())
    return "paused" if old and spec.get("pause").text() == "true" else "running"
