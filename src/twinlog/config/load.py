"""Reads a configuration of any of the three kinds into one Config; every mistake is reported, all at once."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from twinlog.config import unknown
from twinlog.config.build import build_flow
from twinlog.config.checks import check_bootstrap, check_client, check_security
from twinlog.config.clients import CONNECTION_KEYS
from twinlog.config.connect import ConnectorFile, default_worker, is_worker_file, read_connectors
from twinlog.config.dedicated import Dedicated
from twinlog.config.flows import Client, Config, FlowConfig
from twinlog.config.layers import Values, stripped
from twinlog.config.problems import Problems, did_you_mean
from twinlog.config.properties import read_properties
from twinlog.config.providers import Providers, declared_providers
from twinlog.config.settings import SourceSettings
from twinlog.config.sources import Source, read_sources
from twinlog.config.strimzi import is_mirror_maker, mirrors
from twinlog.config.values import FrozenMap, Value
from twinlog.config.yamltree import read_yaml
from twinlog.errors import ConfigError
from twinlog.model import Flow


def load(paths: Sequence[str | Path], secrets: Path | None = None) -> Config:
    """Raises InvalidConfigError with every mistake.

    `paths`: a dedicated-mode file, Strimzi resources, connectors' JSON files or a folder of them; `-` is stdin.
    """
    if secrets is not None and not secrets.is_dir():
        raise ConfigError(f"--secrets {secrets}: no such folder")
    problems = Problems()
    sources = read_sources(paths, problems)
    problems.raise_if_any()
    of = {kind: [source for source in sources if source.kind == kind] for kind in ("properties", "json", "yaml")}
    properties = {source.name: read_properties(source.text, source.name, problems) for source in of["properties"]}
    dedicated = [name for name, values in properties.items() if "clusters" in values]
    if of["yaml"]:
        for source in (*of["properties"], *of["json"]):
            problems.error(source.name, "cannot stand beside a Strimzi resource: give one or the other")
        clusters, flows = _load_strimzi(of["yaml"], secrets, problems)
    elif of["json"]:
        clusters, flows = _load_connectors(of["json"], properties, problems)
    elif dedicated:
        for name in properties:
            if name != dedicated[0]:
                problems.error(name, f"only one dedicated-mode file at a time: {dedicated[0]} is one")
        clusters, flows = _load_dedicated(dedicated[0], properties[dedicated[0]], problems)
    else:
        clusters, flows = _load_one_cluster(properties, problems)
    _check_loops(flows, problems)
    problems.raise_if_any()
    names = tuple(str(source.path) for source in sources)
    return Config(names, FrozenMap(clusters), tuple(flows), tuple(problems.found))


def _check_loops(flows: Sequence[FlowConfig], problems: Problems) -> None:
    """Names that stay the same hide where a record came from: with a flow each way it would go round for ever."""
    keeps = {
        flow.flow: flow for flow in flows if flow.replicates and flow.source and _keeps_names(flow.source.settings)
    }
    for pair, flow in keeps.items():
        back = Flow(pair.target, pair.source)
        if back in keeps and pair < back and flow.source:
            where = flow.source.values["replication.policy.class"].origin
            problems.warn(
                where,
                f"{pair} and {back} both keep topic names: a topic that both replicate goes round for ever; "
                "give them topics that do not overlap",
            )


def _keeps_names(settings: SourceSettings) -> bool:
    return settings.replication_policy_class.endswith(".IdentityReplicationPolicy")


Loaded = tuple[dict[str, Client], list[FlowConfig]]


def _load_dedicated(name: str, values: dict[str, Value], problems: Problems) -> Loaded:
    file = Dedicated(values, problems)
    listed = values["clusters"]
    if any(not alias for alias in file.aliases):
        problems.value(listed, "a list must not have an empty element: remove the extra comma")
    unknown.check_dedicated(file, problems)
    _check_aliases(file, problems)
    _check_switches(file.resolved, problems)
    flows = list(file.flows())
    if not flows:
        problems.value(
            listed, "no flow: name two clusters and enable one of them with <source>-><target>.enabled = true"
        )
    used = {end for flow in flows for end in (flow.source, flow.target)}
    clusters = {}
    for alias in file.aliases:
        if alias not in used:  # MM2 never looks at it
            continue
        connection = file.providers.resolve_all(file.cluster(alias), Problems())
        key = f"{alias}.bootstrap.servers"
        check_bootstrap(alias, connection.get("bootstrap.servers"), name, key, problems)
        clusters[alias] = _cluster(connection, problems)
    made = (build_flow(flow, file.worker(flow), file.connectors(flow), file.providers, problems) for flow in flows)
    built = [flow for flow in made if flow]
    if built and not problems.errors and not any(flow.replicates for flow in built):
        problems.warn(listed.origin, f"no flow is enabled, so nothing is replicated: write {built[0]}.enabled = true")
    return clusters, built


def _check_switches(values: Values, problems: Problems) -> None:
    """What MM2 reads of the file itself, beside `clusters`."""
    value = values.get("dedicated.mode.enable.internal.rest")
    if value and value.text.strip().lower() not in ("true", "false"):
        problems.value(value, "expected true or false")


def _check_aliases(file: Dedicated, problems: Problems) -> None:
    """What MM2 takes and what then breaks in silence."""
    origin = file.raw["clusters"].origin
    separator = (
        file.resolved["replication.policy.separator"].text if "replication.policy.separator" in file.raw else "."
    )
    for alias in filter(None, file.aliases):
        if separator and separator in alias:
            problems.warn(
                origin, f"cluster {alias!r} contains the separator {separator!r}: its remote topics are not recognised"
            )
        if not all(c.isascii() and (c.isalnum() or c in "._-") for c in alias):
            problems.warn(
                origin, f"cluster {alias!r}: topics are named after it, so use letters, digits, '.', '_' and '-' only"
            )
        for other in file.aliases:
            if other.startswith(f"{alias}."):
                problems.warn(
                    origin, f"cluster {alias!r} is a dotted prefix of {other!r}: the settings of one reach the other"
                )


def _load_connectors(
    sources: Sequence[Source], properties: Mapping[str, dict[str, Value]], problems: Problems
) -> Loaded:
    worker, providers = _worker_file(properties, problems)
    groups: list[tuple[Flow, dict[str, ConnectorFile]]] = []
    for file in sources:
        for connector in read_connectors(file, problems):
            unknown.check_connector(connector.values, problems)
            source = connector.values.get("source.cluster.alias")
            if source is None:
                near = did_you_mean("source.cluster.alias", connector.values)
                problems.error(file.name, f"source.cluster.alias is missing{near}: name the source cluster")
                continue
            target = connector.values.get("target.cluster.alias")
            flow = Flow(source.text.strip(), target.text.strip() if target else "target")
            # A second connector of one class for the same clusters is a flow of its own, as it is on Connect.
            free = (members for known, members in groups if known == flow and connector.kind not in members)
            members = next(free, None)
            if members is None:
                members = {}
                groups.append((flow, members))
            members[connector.kind] = connector
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
                "no Connect worker's file was given: the worker's settings are assumed; name it to see yours",
            )
        states = {kind: connector.state for kind, connector in members.items()}
        built = build_flow(flow, default_worker(any_map, worker), maps, providers, problems, label=label, states=states)
        flows += [built] if built else []
    if not groups and not problems.errors:
        problems.error(", ".join(source.name for source in sources), "no connector of MM2 in there")
    return clusters, flows


def _worker_file(
    properties: Mapping[str, dict[str, Value]], problems: Problems
) -> tuple[dict[str, Value] | None, Providers]:
    worker: dict[str, Value] | None = None
    for name, values in properties.items():
        if "clusters" in values:
            problems.error(
                name, "a dedicated-mode file cannot stand beside connectors' JSON files: give one or the other"
            )
        elif not is_worker_file(values):
            problems.warn(name, "neither a worker's file nor a connector's: left out")
        elif worker is not None:
            problems.error(name, "a second worker file: a Connect cluster has one")
        else:
            worker = values
            unknown.check_worker(values, problems)
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
    # `kubectl get -o yaml` gives a list.
    trees = [
        one
        for tree in documents
        for one in (tree.get("items").each() if tree.get("kind").content == "List" else [tree])
    ]
    resources = [tree for tree in trees if is_mirror_maker(tree)]
    if not resources and not problems.found:
        problems.error(
            ", ".join(source.name for source in sources), "no resource with kind: KafkaMirrorMaker2 in there"
        )
    clusters: dict[str, Client] = {}
    flows: list[FlowConfig] = []
    for resource in resources:
        for mirror in mirrors(resource, secrets, problems):
            if mirror.flow in {flow.flow for flow in flows}:
                problems.error(
                    mirror.origin, f"a second mirror {mirror.flow}: its connectors would bear the same names"
                )
            unknown.check_worker(mirror.worker, problems)
            for values in mirror.connectors.values():
                # The target's own `config` is the worker's, and was looked at as such.
                own = {key: value for key, value in values.items() if not key.startswith("target.cluster.")}
                unknown.check_connector(own, problems)
                _add_sides(mirror.flow, values, clusters, mirror.providers, problems)
            built = build_flow(
                mirror.flow, mirror.worker, mirror.connectors, mirror.providers, problems, states=mirror.states
            )
            flows += [built] if built else []
    return clusters, flows


def _load_one_cluster(properties: Mapping[str, dict[str, Value]], problems: Problems) -> Loaded:
    """A worker's or a client's file by itself: one cluster, no flow. Good to look at, nothing to run."""
    clusters = {}
    for name, values in properties.items():
        if "bootstrap.servers" not in values:
            near = did_you_mean("clusters", values)
            problems.error(name, f"clusters is missing{near}: name the clusters, for example: clusters = us, eu")
            continue
        kind = "a Connect worker's file" if is_worker_file(values) else "a Kafka client's file"
        problems.warn(name, f"{kind}: it describes one cluster and no flow")
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
