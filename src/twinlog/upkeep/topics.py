"""Keeps the configs and ACLs of remote topics as the source's are: MM2's rules, but only what differs is written."""

from collections.abc import Callable, Mapping

from twinlog.config.flows import FlowConfig
from twinlog.errors import RefusedError
from twinlog.kafka import codes
from twinlog.kafka.admin import Admin
from twinlog.kafka.client import Client
from twinlog.topology import acls
from twinlog.topology.acls import AclBinding
from twinlog.topology.configs import ConfigChange, acceptable, changes, known_to
from twinlog.topology.selection import config_filter_of, selection_of
from twinlog.upkeep.remote_topics import some_of
from twinlog.upkeep.routine import Chore


class TopicsKeeper:
    """Belongs to one thread. What fails is told by `warn(about, text)`, once per subject, and the rest goes on."""

    def __init__(self, config: FlowConfig, warn: Callable[[str, str], None]) -> None:
        assert config.source is not None
        self._flow = config.flow
        self._settings = config.source.settings
        self._warn = warn
        self._selection = selection_of(config)
        self._accepts = config_filter_of(config).accepts
        clients, name = config.source.clients, f"twinlog-{config.flow}-topics"
        self._clients = [
            Client(config.flow.source, clients["source.admin"], name),
            Client(config.flow.target, clients["target.admin"], name),
        ]
        self._source, self._target = (Admin(client) for client in self._clients)

    def chores(self) -> list[Chore]:
        """As MM2: both at once, then at their intervals; a negative interval is none."""
        settings = self._settings
        wanted = [
            ("topic ACLs", settings.sync_topic_acls_enabled, settings.sync_topic_acls_interval_seconds, self.sync_acls),
            (
                "topic configs",
                settings.sync_topic_configs_enabled,
                settings.sync_topic_configs_interval_seconds,
                self.sync_configs,
            ),
        ]
        return [
            Chore(name, max(float(every), 1.0), do) for name, enabled, every, do in wanted if enabled and every >= 0
        ]

    def close(self) -> None:
        for client in self._clients:
            client.close()

    # Configs

    def sync_configs(self) -> int:
        """How many remote topics were changed."""
        remote = self._remote_names()
        source, target = self._flow.source, self._flow.target
        here, failed = self._source.topic_configs(remote)
        self._tell(source, failed, "grant DESCRIBE_CONFIGS, or set sync.topic.configs.enabled = false")
        there, failed = self._target.topic_configs(remote[name] for name in here)
        self._tell(target, failed, "grant DESCRIBE_CONFIGS, or set sync.topic.configs.enabled = false")
        defaults = self._settings.use_defaults_from == "source"
        wanted: dict[str, list[ConfigChange]] = {}
        strange: dict[str, list[str]] = {}
        for name, entries in here.items():
            if (present := there.get(remote[name])) is None:
                continue
            differs = changes(entries, present, self._accepts, defaults_from_source=defaults)
            known, unknown = known_to(present, differs)
            for change in unknown:
                strange.setdefault(change.name, []).append(remote[name])
            if known:
                wanted[remote[name]] = known
        for config, topics in strange.items():
            self._warn(
                f"topic config {config}",
                f"cluster {target} does not know the topic config {config}: it is left out for {some_of(topics)}",
            )
        return self._alter(wanted)

    def _remote_names(self) -> dict[str, str]:
        """The topics that are on both sides now, with their names on the target."""
        upstream = self._clients[0].metadata(None).topics
        names = {
            name: self._selection.remote_name(name)
            for name, info in upstream.items()
            if not info.error and self._selection.selects(name)
        }
        if not names:
            return {}
        downstream = self._clients[1].metadata(sorted(set(names.values()))).topics
        return {
            name: remote
            for name, remote in names.items()
            if (info := downstream.get(remote)) is not None and not info.error
        }

    def _alter(self, wanted: Mapping[str, list[ConfigChange]]) -> int:
        if not wanted:
            return 0
        try:
            refused = self._target.alter_topic_configs(wanted)
        except RefusedError as error:
            if error.code != codes.UNSUPPORTED_VERSION:
                raise
            hint = "Kafka 2.3 or newer is needed; or set sync.topic.configs.enabled = false"
            self._warn("topic configs", f"topic configs cannot be changed: {error}: {hint}")
            return 0
        changed = len(wanted) - len(refused)
        denied: dict[str, int] = {}
        for topic, refusal in refused.items():
            if refusal.code in codes.BAD_CONFIG:
                changed += self._alter_some(topic, wanted[topic], refusal)
            elif refusal.code in codes.DENIED | codes.GONE:
                denied[topic] = refusal.code
            else:
                self._warn(f"configs of {topic}", str(refusal))
        hint = "grant ALTER_CONFIGS, or set sync.topic.configs.enabled = false"
        self._tell(self._flow.target, denied, hint, "changed")
        return changed

    def _alter_some(self, topic: str, wanted: list[ConfigChange], error: RefusedError) -> bool:
        """All changes of a topic are refused for one of them: those that the target takes are made."""

        def accepted(some: list[ConfigChange]) -> bool:
            return not self._target.alter_topic_configs({topic: some}, validate_only=True)

        taken, left = acceptable(wanted, accepted)
        without = ", ".join(f"{change.name} = {change.value}" for change in left)
        self._warn(f"configs of {topic}", f"topic {topic} of {self._flow.target} does not get {without}: {error}")
        return bool(taken) and not self._target.alter_topic_configs({topic: taken})

    # ACLs

    def sync_acls(self) -> int:
        """How many ACLs were created."""
        try:
            if (ours := self._source.acls()) is None:  # nothing is guarded there, so there is nothing to tell either
                return 0
            wanted = acls.for_remote_topics(ours, self._selection.selects, self._selection.remote_name)
            if not wanted:
                return 0
            if (theirs := self._target.acls()) is None:
                self._warn(
                    "ACLs",
                    f"{len(wanted)} ACLs of {self._flow.source} are not copied: cluster {self._flow.target} has no "
                    "authorizer; set sync.topic.acls.enabled = false if that is meant so",
                )
                return 0
            missing = acls.missing(wanted, theirs)
            refused = self._target.create_acls(missing) if missing else []
        except RefusedError as error:
            if error.code not in codes.DENIED | {codes.UNSUPPORTED_VERSION}:
                raise
            hint = f"grant DESCRIBE on cluster {self._flow.source} and ALTER on cluster {self._flow.target}"
            self._warn("ACLs", f"ACLs are not copied: {error}: {hint}, or set sync.topic.acls.enabled = false")
            return 0
        self._tell_refused(refused)
        return len(missing) - len(refused)

    def _tell_refused(self, refused: list[tuple[AclBinding, str]]) -> None:
        reasons: dict[str, list[str]] = {}
        for binding, reason in refused:
            reasons.setdefault(reason, []).append(str(binding))
        for reason, bindings in reasons.items():
            self._warn(
                f"ACLs: {reason}",
                f"cluster {self._flow.target} refuses {len(bindings)} ACLs ({some_of(bindings)}): {reason}",
            )

    def _tell(self, cluster: str, failed: Mapping[str, int], hint: str, what: str = "read") -> None:
        """One warning per error, not per topic."""
        by_code: dict[int, list[str]] = {}
        for topic, code in failed.items():
            by_code.setdefault(code, []).append(topic)
        for code, topics in by_code.items():
            advice = f": {hint}" if code in codes.DENIED else ""
            self._warn(
                f"configs on {cluster} not {what}: {code}",
                f"cluster {cluster}: the configs of {some_of(topics)} cannot be {what}: {codes.name(code)}{advice}",
            )
