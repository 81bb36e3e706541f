"""Loads a configuration of any of the three formats; all errors are reported at once."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from twinlog.config import unknown_keys
from twinlog.config.build import build_flow
from twinlog.config.checks import check_bootstrap, check_client, check_one_cluster, check_security
from twinlog.config.clients import CONNECTION_KEYS
from twinlog.config.connect import ConnectorFile, default_worker, is_worker_file, read_connectors
from twinlog.config.dedicated import Dedicated
from twinlog.config.files import Source, read_sources
from twinlog.config.flows import Client, Config, FlowConfig
from twinlog.config.layers import Values, stripped
from twinlog.config.override_policy import check_overrides
from twinlog.config.problems import Problems, did_you_mean
from twinlog.config.properties import read_properties
from twinlog.config.providers import Providers, declared_providers
from twinlog.config.settings import NO_INTERNAL_REST, SourceSettings
from twinlog.config.state_topics import with_storage_topics
from twinlog.config.strimzi import is_mirror_maker, mirrors
from twinlog.config.value_types import EMPTY_ELEMENT, Expected
from twinlog.config.values import FrozenMap, Value
from twinlog.config.yaml_lines import read_yaml
from twinlog.errors import ConfigError
from twinlog.model import Flow


def load(paths: Sequence[str | Path], secrets: Path | None = None) -> Config:
    """Raises InvalidConfigError with all errors.

    `paths`: a dedicated-mode file, Strimzi resources, JSON files of connectors or a folder of them; `-` is stdin.
    """
    if secrets is not None and not secrets.is_dir():
        raise ConfigError(f"--secrets {secrets}: directory not found", "check the path")
    problems = Problems()
    sources = read_sources(paths, problems)
    problems.raise_if_any()
    of = {kind: [source for source in sources if source.kind == kind] for kind in ("properties", "json", "yaml")}
    properties = {source.name: read_properties(source.text, source.name, problems) for source in of["properties"]}
    dedicated = [name for name, values in properties.items() if "clusters" in values]
    if of["yaml"]:
        for source in (*of["properties"], *of["json"]):
            problems.error(source.name, "cannot be combined with a Strimzi resource; name one or the other")
        clusters, flows = _load_strimzi(of["yaml"], secrets, problems)
    elif of["json"]:
        clusters, flows = _load_connectors(of["json"], properties, problems)
    elif dedicated:
        for name in properties:
            if name != dedicated[0]:
                problems.error(name, f"{dedicated[0]} is a dedicated-mode file already; name only one")
        clusters, flows = _load_dedicated(dedicated[0], properties[dedicated[0]], problems)
    else:
        clusters, flows = _load_one_cluster(properties, problems)
    _check_cycles(flows, problems)
    problems.raise_if_any()
    names = tuple(str(source.path) for source in sources)
    return Config(names, FrozenMap(clusters), with_storage_topics(flows), tuple(problems.found))


def _check_cycles(flows: Sequence[FlowConfig], problems: Problems) -> None:
    """Unchanged topic names do not show a record's origin: two opposite flows would replicate it endlessly."""
    unchanged = {
        flow.flow: flow for flow in flows if flow.replicates and flow.source and _keeps_names(flow.source.settings)
    }
    for pair, flow in unchanged.items():
        opposite = Flow(pair.target, pair.source)
        if opposite in unchanged and pair < opposite and flow.source:
            where = flow.source.values["replication.policy.class"].origin
            problems.warn(
                where,
                f"{pair} and {opposite} both keep topic names: a topic that both replicate is a replication cycle; "
                "select topics that do not overlap",
            )


def _keeps_names(settings: SourceSettings) -> bool:
    return settings.replication_policy_class.endswith(".IdentityReplicationPolicy")


Loaded = tuple[dict[str, Client], list[FlowConfig]]


def _load_dedicated(name: str, values: dict[str, Value], problems: Problems) -> Loaded:
    file = Dedicated(values, problems)
    listed = values["clusters"]
    if any(not alias for alias in file.aliases):
        problems.value(listed, EMPTY_ELEMENT)
    unknown_keys.check_dedicated(file, problems)
    _check_aliases(file, problems)
    _check_switches(file.resolved, problems)
    flows = list(file.flows())
    if not flows:
        problems.value(listed, "no flow; name two clusters and set <source>-><target>.enabled = true")
    used = {end for flow in flows for end in (flow.source, flow.target)}
    clusters = {}
    for alias in file.aliases:
        if alias not in used:  # not used by MM2 either
            continue
        connection = file.providers.resolve_all(file.cluster(alias), Problems())
        key = f"{alias}.bootstrap.servers"
        check_bootstrap(alias, connection.get("bootstrap.servers"), name, key, problems)
        clusters[alias] = _cluster(connection, problems)
    loaded = (build_flow(flow, file.worker(flow), file.connectors(flow), file.providers, problems) for flow in flows)
    built = [flow for flow in loaded if flow]
    if built and not problems.errors and not any(flow.replicates for flow in built):
        problems.warn(listed.origin, f"no flow is enabled, nothing is replicated; set {built[0]}.enabled = true")
    return clusters, built


def _check_switches(values: Values, problems: Problems) -> None:
    """The other key, besides `clusters`, that MM2 reads from the file itself."""
    value = values.get("dedicated.mode.enable.internal.rest")
    if value and value.text.strip().lower() not in ("true", "false"):
        problems.value(value, Expected("expected true or false"))
    elif value:
        problems.note(value.origin, f"{value.origin.key or value.key} has no effect: {NO_INTERNAL_REST}")


def _check_aliases(file: Dedicated, problems: Problems) -> None:
    """Aliases that MM2 accepts, but which then fail silently."""
    origin = file.raw["clusters"].origin
    separator = (
        file.resolved["replication.policy.separator"].text if "replication.policy.separator" in file.raw else "."
    )
    for alias in filter(None, file.aliases):
        if separator and separator in alias:
            problems.warn(
                origin,
                f"cluster {alias!r}: contains the separator {separator!r}, so its remote topics are not recognized; "
                "rename it",
            )
        if not all(c.isascii() and (c.isalnum() or c in "._-") for c in alias):
            problems.warn(
                origin,
                f"cluster {alias!r}: not valid in topic names; use letters, digits, '.', '_' and '-' only",
            )
        for other in file.aliases:
            if other.startswith(f"{alias}."):
                problems.warn(
                    origin,
                    f"cluster {alias!r}: dotted prefix of {other!r}, so settings of one reach the other; rename it",
                )


def _load_connectors(
    sources: Sequence[Source], properties: Mapping[str, dict[str, Value]], problems: Problems
) -> Loaded:
    worker, providers = _worker_file(properties, problems)
    groups: list[tuple[Flow, dict[str, ConnectorFile]]] = []
    for file in sources:
        for connector in read_connectors(file, problems):
            unknown_keys.check_connector(connector.values, problems)
            source = connector.values.get("source.cluster.alias")
            if source is None:
                near = did_you_mean("source.cluster.alias", connector.values)
                problems.error(
                    file.name, f"source.cluster.alias is missing{near}; set it to the source cluster's alias"
                )
                continue
            target = connector.values.get("target.cluster.alias")
            flow = Flow(source.text.strip(), target.text.strip() if target else "target")
            # A second connector of one class for the same clusters is a separate flow, as in Connect.
            free = (members for known, members in groups if known == flow and connector.kind not in members)
            members = next(free, None)
            if members is None:
                members = {}
                groups.append((flow, members))
            members[connector.kind] = connector
    _check_same_clusters(groups, providers, problems)
    clusters: dict[str, Client] = {}
    flows = []
    seen: set[Flow] = set()
    for flow, members in groups:
        maps = {kind: connector.values for kind, connector in members.items()}
        for values in maps.values():
            _add_sides(flow, values, clusters, providers, problems)
        any_map = maps.get("MirrorSourceConnector") or next(iter(maps.values()))
        label = any_map["name"].shown if flow in seen else ""
        seen.add(flow)
        if worker is None:
            origin = next(value.origin for value in any_map.values() if value.origin.file)
            problems.note(
                origin.file,
                "no Connect worker file: default worker settings are used; name the file to use yours",
            )
        states = {kind: connector.state for kind, connector in members.items()}
        built = build_flow(flow, default_worker(any_map, worker), maps, providers, problems, label=label, states=states)
        if built:
            check_overrides(maps, built.worker.settings, problems)
            flows.append(built)
    if not groups and not problems.errors:
        problems.error(", ".join(source.name for source in sources), "no connector of MM2 found")
    return clusters, flows


def _check_same_clusters(
    groups: Sequence[tuple[Flow, dict[str, ConnectorFile]]], providers: Providers, problems: Problems
) -> None:
    for flow in dict.fromkeys(flow for flow, _ in groups):
        maps = [one.values for known, members in groups if known == flow for one in members.values()]
        for side, alias in (("source", flow.source), ("target", flow.target)):
            key = f"{side}.cluster.bootstrap.servers"
            given = [providers.resolve_all({key: each[key]} if key in each else {}, Problems()) for each in maps]
            named = [(values["name"].shown, found.get(key)) for values, found in zip(maps, given, strict=True)]
            check_one_cluster(side, alias, named, problems)


def _worker_file(
    properties: Mapping[str, dict[str, Value]], problems: Problems
) -> tuple[dict[str, Value] | None, Providers]:
    worker: dict[str, Value] | None = None
    for name, values in properties.items():
        if "clusters" in values:
            problems.error(
                name, "a dedicated-mode file cannot be combined with JSON files of connectors; name one or the other"
            )
        elif not is_worker_file(values):
            problems.warn(name, "skipped: neither a worker file nor a connector")
        elif worker is not None:
            problems.error(name, "second worker file; name only one")
        else:
            worker = values
            unknown_keys.check_worker(values, problems)
    return worker, declared_providers(worker or {}, problems)


def _add_sides(
    flow: Flow, values: Values, clusters: dict[str, Client], providers: Providers, problems: Problems
) -> None:
    for side, alias in (("source", flow.source), ("target", flow.target)):
        connection = providers.resolve_all(stripped(values, f"{side}.cluster."), problems)
        where = next((value.origin.file for value in values.values() if value.origin.file), "")
        key = f"{side}.cluster.bootstrap.servers"
        check_bootstrap(alias, connection.get("bootstrap.servers"), where, key, problems)
        clusters.setdefault(alias, _cluster(connection, problems))


def _load_strimzi(sources: Sequence[Source], secrets: Path | None, problems: Problems) -> Loaded:
    documents = [tree for source in sources for tree in read_yaml(source, problems)]
    # `kubectl get -o yaml` prints a list.
    trees = [
        one
        for tree in documents
        for one in (tree.get("items").each() if tree.get("kind").content == "List" else [tree])
    ]
    resources = [tree for tree in trees if is_mirror_maker(tree)]
    if not resources and not problems.found:
        problems.error(", ".join(source.name for source in sources), "no resource of kind KafkaMirrorMaker2 found")
    clusters: dict[str, Client] = {}
    flows: list[FlowConfig] = []
    for resource in resources:
        for mirror in mirrors(resource, secrets, problems):
            if mirror.flow in {flow.flow for flow in flows}:
                problems.error(
                    mirror.origin, f"second mirror {mirror.flow}: its connectors have the same names; remove one"
                )
            unknown_keys.check_worker(mirror.worker, problems)
            for values in mirror.connectors.values():
                # The target's `config` is the worker's, which was checked above.
                own = {key: value for key, value in values.items() if not key.startswith("target.cluster.")}
                unknown_keys.check_connector(own, problems)
                _add_sides(mirror.flow, values, clusters, mirror.providers, problems)
            built = build_flow(
                mirror.flow, mirror.worker, mirror.connectors, mirror.providers, problems, states=mirror.states
            )
            if built:
                check_overrides(mirror.connectors, built.worker.settings, problems)
                flows.append(built)
    return clusters, flows


def _load_one_cluster(properties: Mapping[str, dict[str, Value]], problems: Problems) -> Loaded:
    """A worker's or a client's file only: one cluster, no flow. It can be shown, but not run."""
    clusters = {}
    for name, values in properties.items():
        if "bootstrap.servers" not in values:
            near = did_you_mean("clusters", values)
            problems.error(name, f"clusters is missing{near}; set it, for example to us, eu")
            continue
        kind = "Connect worker file" if is_worker_file(values) else "Kafka client file"
        problems.warn(name, f"{kind}: one cluster, no flow")
        resolved = declared_providers(values, problems).resolve_all(values, problems)
        alias = Path(name).stem
        check_bootstrap(alias, resolved.get("bootstrap.servers"), name, "bootstrap.servers", problems)
        clusters[alias] = _cluster(resolved, problems)
    return clusters, []


def _cluster(values: Values, problems: Problems) -> Client:
    connection = {key: value for key, value in values.items() if key in CONNECTION_KEYS}
    check_client("admin", connection, problems)
    check_security(values, problems)
    return Client("admin", FrozenMap(connection))
