"""Syncs configs and ACLs of remote topics by MM2's rules, but writes only differences."""

from twinlog.config.flows import FlowConfig
from twinlog.errors import RefusedError
from twinlog.kafka import error_codes
from twinlog.kafka.admin import Admin
from twinlog.kafka.resources import AclBinding
from twinlog.mm2 import acls
from twinlog.mm2.client_ids import SIDES
from twinlog.mm2.selection import selection_of
from twinlog.sync.flow_clients import FlowClients
from twinlog.sync.remote_topics import RemoteTopics
from twinlog.sync.scheduler import PeriodicJob, Warn, interval
from twinlog.text import some


class ConfigAndAclSync:
    """Not thread-safe. A failure is reported by `warn(key, text)`, and does not affect the rest."""

    def __init__(self, config: FlowConfig, warn: Warn) -> None:
        assert config.source is not None
        self._flow = config.flow
        self._settings = config.source.settings
        self._warn = warn
        self._selection = selection_of(config)
        self._clients = FlowClients(config, "source")
        source, target = (self._clients.client(f"{side}.admin") for side in SIDES)
        self._source, self._target = Admin(source), Admin(target)
        self._remote_topics = RemoteTopics(config, source, target, self._warn_of_topics)

    def jobs(self) -> list[PeriodicJob]:
        """As in MM2: both at the start, then at their intervals; never if the interval is negative."""
        settings = self._settings
        acls = interval(settings.sync_topic_acls_interval_seconds, enabled=settings.sync_topic_acls_enabled, least=1.0)
        configs = interval(
            settings.sync_topic_configs_interval_seconds, enabled=settings.sync_topic_configs_enabled, least=1.0
        )
        wanted = [("topic ACLs", acls, self.sync_acls), ("topic configs", configs, self.sync_configs)]
        return [PeriodicJob(name, every, run) for name, every, run in wanted if every is not None]

    def close(self) -> None:
        self._clients.close()

    def _warn_of_topics(self, key: str, text: str | None, **_: object) -> None:
        """As remote_topics.Warn."""
        if text is not None:
            self._warn(key, text)

    def sync_configs(self) -> int:
        """The number of changed remote topics."""
        return self._remote_topics.sync_configs(self._remote_names())

    def _remote_names(self) -> dict[str, str]:
        """The topics that exist on both sides, with their names on the target."""
        upstream = self._clients.client("source.admin").metadata(None).topics
        names = {
            name: self._selection.remote_name(name)
            for name, info in upstream.items()
            if not info.error and self._selection.selects(name)
        }
        if not names:
            return {}
        downstream = self._clients.client("target.admin").metadata(sorted(set(names.values()))).topics
        return {
            name: remote
            for name, remote in names.items()
            if (info := downstream.get(remote)) is not None and not info.error
        }

    # ACLs

    def sync_acls(self) -> int:
        """The number of created ACLs."""
        try:
            if (ours := self._source.acls()) is None:  # no authorizer, so nothing to sync
                return 0
            wanted = acls.for_remote_topics(ours, self._selection.selects, self._selection.remote_name)
            if not wanted:
                return 0
            if (theirs := self._target.acls()) is None:
                self._warn(
                    "ACLs",
                    f"{len(wanted)} ACLs of {self._flow.source} not synced: cluster {self._flow.target} has no "
                    "authorizer; if that is intended, set sync.topic.acls.enabled = false",
                )
                return 0
            missing = acls.missing(wanted, theirs)
            refused = self._target.create_acls(missing) if missing else []
        except RefusedError as error:
            if error.code not in error_codes.UNAUTHORIZED | {error_codes.UNSUPPORTED_VERSION}:
                raise
            hint = f"grant DESCRIBE on cluster {self._flow.source} and ALTER on cluster {self._flow.target}"
            self._warn("ACLs", f"ACLs not synced: {error}; {hint}, or set sync.topic.acls.enabled = false")
            return 0
        self._report_refused(refused)
        return len(missing) - len(refused)

    def _report_refused(self, refused: list[tuple[AclBinding, str]]) -> None:
        reasons: dict[str, list[str]] = {}
        for binding, reason in refused:
            reasons.setdefault(reason, []).append(str(binding))
        for reason, bindings in reasons.items():
            self._warn(
                f"ACLs: {reason}",
                f"cluster {self._flow.target} rejected {len(bindings)} ACLs ({some(sorted(bindings), 3)}): {reason}",
            )
