"""Remote topics: creates them with the configs of the source, adds missing partitions, and syncs their configs.

No other module changes remote topics. The planner creates them, because it assigns their partitions to tasks at once; a
periodic job syncs their configs. A topic that is created first and configured later could lose records, because of a
wrong cleanup.policy.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from twinlog.config.flows import FlowConfig
from twinlog.errors import RefusedError
from twinlog.kafka import error_codes
from twinlog.kafka.admin import Admin
from twinlog.kafka.client import Client, NewTopic, TopicInfo
from twinlog.kafka.resources import ConfigChange
from twinlog.mm2.selection import config_filter_of
from twinlog.mm2.topic_configs import acceptable, changes, for_new_topic, known_to
from twinlog.sync.forwarding_admin import admin_of, appears_within
from twinlog.sync.internal_topics import wait_for_topics
from twinlog.text import some

_MAX_NAMED: Final = 3  # topics in a message
_MAX_TOGETHER: Final = 100  # topics created with one request
_MAX_CREATED: Final = 500  # and partitions: a busy broker must answer in time
_SYNC_OFF: Final = "or set sync.topic.configs.enabled = false"


def batches(counts: Mapping[str, int]) -> Iterator[list[str]]:
    """Names in groups of at most so many partitions. Brokers limit the partitions that a request may create."""
    names: list[str] = []
    partitions = 0
    for name, count in counts.items():
        if names and (partitions + count > _MAX_CREATED or len(names) >= _MAX_TOGETHER):
            yield names
            names, partitions = [], 0
        names.append(name)
        partitions += count
    if names:
        yield names


class Warn(Protocol):
    """Reports a text once, until the key has another one; None clears it.

    `left_out`: the topic `key`, or some of its partitions, is not replicated. `topics`: other topics that the text
    is about.
    """

    def __call__(self, key: str, text: str | None, *, left_out: bool = True, topics: Sequence[str] = ()) -> None: ...


class RemoteTopics:
    """Not thread-safe. A failure is reported by `warn`, and does not affect the other topics."""

    def __init__(self, config: FlowConfig, source: Client, target: Client, warn: Warn) -> None:
        """`source` and `target` are the admin clients."""
        assert config.source is not None
        self._flow = config.flow
        self._settings = config.source.settings
        self._defaults_from_source = self._settings.use_defaults_from == "source"
        self._accepts = config_filter_of(config).accepts
        self._source = Admin(source)
        self._target_client = target
        self._target = admin_of(target)
        self._warn = warn

    # Creation

    def ensure(
        self, topics: Mapping[str, TopicInfo], remote: Mapping[str, str], reader: Client
    ) -> dict[str, TopicInfo]:
        """Creates the remote topics of these topics that are missing, and adds missing partitions. Returns the remote
        topics as `reader` sees them: those that could not be created are missing, or have an error.

        `remote`: the names of the remote topics, by topic. `reader`: the client that will write to them.
        """
        there = reader.metadata(sorted({remote[name] for name in topics})).topics if topics else {}
        new = [name for name in topics if _absent(there.get(remote[name]))]
        configs = self._configs_for_new(new) if new else {}
        created = self._create_together({name: len(topics[name].leaders) for name in new}, remote, configs)
        changed = [
            name
            for name, info in topics.items()
            if name in created
            or self._create_or_grow(name, len(info.leaders), remote[name], there.get(remote[name]), configs)
        ]
        if changed:
            wanted = {remote[name]: len(topics[name].leaders) for name in changed}
            there |= wait_for_topics(reader, wanted, appears_within(self._target_client)).topics
        for name in changed:
            if (info := there.get(remote[name])) is None or info.error:
                text = f"topic {remote[name]} of {self._flow.target}: creation requested, not available yet; retrying"
                self._warn(name, text, topics=(remote[name],))
        return there

    def _create_together(
        self, counts: Mapping[str, int], remote: Mapping[str, str], configs: Mapping[str, dict[str, str]]
    ) -> set[str]:
        """Creates remote topics, many with each request: one request per topic takes minutes for thousands of them.
        Returns the topics for which that worked.
        """
        factor = self._settings.replication_factor
        created: set[str] = set()
        for names in batches({name: count for name, count in counts.items() if name in configs}):
            wanted = [NewTopic(remote[name], counts[name], factor, configs[name]) for name in names]
            with contextlib.suppress(RefusedError):  # one by one it is known which, and why
                there = self._target_client.create_topics(wanted)
                created |= {name for name in names if remote[name] in there}
        for name in created:
            self._warn(name, None)
        return created

    def _create_or_grow(
        self, name: str, count: int, remote: str, there: TopicInfo | None, configs: Mapping[str, dict[str, str]]
    ) -> bool:
        """Whether the remote topic was changed."""
        try:
            if there is None or _absent(there):
                if name not in configs:  # deleted in the meantime
                    return False
                self._create(remote, count, configs[name])
            elif there.error:
                reason = f"topic {remote} of {self._flow.target}: {error_codes.name(there.error)}"
                self._warn(name, reason, topics=(remote,))
                return False
            elif len(there.leaders) < count:
                self._target_client.grow_topic(remote, count)
            else:
                self._compare(name, count, remote, len(there.leaders))
                return False
        except RefusedError as error:
            self._warn(name, f"{error}{self._hint(error, there)}", topics=(remote,))
            return False
        self._warn(name, None)
        return True

    @staticmethod
    def _hint(error: RefusedError, there: TopicInfo | None) -> str:
        if error.code == error_codes.INVALID_REPLICATION_FACTOR:
            return "; set replication.factor to at most the number of brokers"
        if there is not None and there.leaders:
            return f"; only partitions 0 to {len(there.leaders) - 1} are replicated"
        return ""

    def _compare(self, name: str, count: int, remote: str, have: int) -> None:
        text = None
        if have > count:
            text = (
                f"topic {remote} of {self._flow.target} has {have} partitions, {name} of {self._flow.source} has "
                f"{count}; replicated records keep their partition, but producers on {self._flow.target} map keys to "
                "other partitions"
            )
        self._warn(f"partitions of {name}", text, left_out=False, topics=(name, remote))

    def _configs_for_new(self, names: list[str]) -> dict[str, dict[str, str]]:
        """By topic; empty if not readable. Deleted topics have no entry."""
        try:
            found, failed = self._source.topic_configs(names)
        except RefusedError as error:
            found, failed = {}, dict.fromkeys(names, error.code)
        configs = {
            name: for_new_topic(entries, self._accepts, defaults_from_source=self._defaults_from_source)
            for name, entries in found.items()
        }
        unread = {name: code for name, code in failed.items() if code not in error_codes.TOPIC_MISSING}
        effect = "; their remote topics get the target's defaults"
        self._report_failed(self._flow.source, unread, "read", ", grant DESCRIBE_CONFIGS", effect)
        return configs | {name: {} for name in unread}

    def _create(self, remote: str, count: int, configs: dict[str, str]) -> None:
        factor = self._settings.replication_factor
        try:
            self._target_client.create_topic(remote, count, factor, configs)
        except RefusedError as error:
            if not configs or error.code not in error_codes.BAD_CONFIG:
                raise
            if self._target.refuses_topic(remote, count, factor, {}):  # not because of the configs
                raise
            taken, left = acceptable(
                list(configs.items()),
                lambda some: self._target.refuses_topic(remote, count, factor, dict(some)) is None,
            )
            self._target_client.create_topic(remote, count, factor, dict(taken))
            without = ", ".join(f"{key} = {value}" for key, value in left)
            self._warn_configs(remote, f"topic {remote} created without {without}: {error}")

    # Configs

    def sync_configs(self, remote: Mapping[str, str]) -> int:
        """The number of changed remote topics. `remote`: names of existing topics, by topic."""
        here, failed = self._source.topic_configs(remote)
        hint = f"; grant DESCRIBE_CONFIGS, {_SYNC_OFF}"
        self._report_failed(self._flow.source, failed, "read", hint)
        there, failed = self._target.topic_configs(remote[name] for name in here)
        self._report_failed(self._flow.target, failed, "read", hint)
        wanted: dict[str, list[ConfigChange]] = {}
        unsupported: dict[str, list[str]] = {}
        for name, entries in here.items():
            if (present := there.get(remote[name])) is None:
                continue
            differs = changes(entries, present, self._accepts, defaults_from_source=self._defaults_from_source)
            known, unknown = known_to(present, differs)
            for change in unknown:
                unsupported.setdefault(change.name, []).append(remote[name])
            if known:
                wanted[remote[name]] = known
        for config, topics in unsupported.items():
            text = f"not supported by cluster {self._flow.target}; not synced for {some(sorted(topics), _MAX_NAMED)}"
            self._warn(f"topic config {config}", f"topic config {config}: {text}", left_out=False, topics=topics)
        return self._alter(wanted) if wanted else 0

    def _alter(self, wanted: Mapping[str, list[ConfigChange]]) -> int:
        try:
            refused = self._target.alter_topic_configs(wanted)
        except RefusedError as error:
            if error.code != error_codes.UNSUPPORTED_VERSION:
                raise
            text = f"topic configs not synced: {error}; upgrade it to Kafka 2.3 or newer, {_SYNC_OFF}"
            self._warn("topic configs", text, left_out=False)
            return 0
        changed = len(wanted) - len(refused)
        denied: dict[str, int] = {}
        for topic, refusal in refused.items():
            if refusal.code in error_codes.BAD_CONFIG:
                changed += self._alter_some(topic, wanted[topic], refusal)
            elif refusal.code in error_codes.UNAUTHORIZED | error_codes.TOPIC_MISSING:
                denied[topic] = refusal.code
            else:
                self._warn_configs(topic, str(refusal))
        self._report_failed(self._flow.target, denied, "change", f"; grant ALTER_CONFIGS, {_SYNC_OFF}")
        return changed

    def _alter_some(self, topic: str, wanted: list[ConfigChange], error: RefusedError) -> bool:
        """The broker rejects all changes of a topic because of one: applies those that it accepts."""
        good, bad = acceptable(
            wanted, lambda some: not self._target.alter_topic_configs({topic: some}, validate_only=True)
        )
        rejected = ", ".join(f"{change.name} = {change.value}" for change in bad)
        self._warn_configs(topic, f"topic {topic} of {self._flow.target}: {rejected} not synced: {error}")
        return bool(good) and not self._target.alter_topic_configs({topic: good})

    # Warnings

    def _warn_configs(self, remote: str, text: str) -> None:
        self._warn(f"configs of {remote}", text, left_out=False, topics=(remote,))

    def _report_failed(self, cluster: str, failed: Mapping[str, int], action: str, hint: str, effect: str = "") -> None:
        """One warning per error code, not per topic. `hint`: if a permission is missing."""
        by_code: dict[int, list[str]] = {}
        for topic, code in failed.items():
            by_code.setdefault(code, []).append(topic)
        for code, topics in by_code.items():
            advice = effect + (hint if code in error_codes.UNAUTHORIZED else "")
            text = f"cannot {action} configs of {some(sorted(topics), _MAX_NAMED)}: {error_codes.name(code)}{advice}"
            key = f"{action} configs on {cluster}: {code}"
            self._warn(key, f"cluster {cluster}: {text}", left_out=False, topics=topics)


def _absent(there: TopicInfo | None) -> bool:
    return there is None or there.error == error_codes.UNKNOWN_TOPIC_OR_PARTITION
