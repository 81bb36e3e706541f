"""Makes remote topics, with the source's configs from the start, and gives them the partitions that they lack.

A topic that is made first and configured later holds records under a wrong cleanup.policy meanwhile, and may lose them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import RefusedError
from twinlog.kafka import codes
from twinlog.kafka.admin import Admin
from twinlog.kafka.client import Client, TopicInfo
from twinlog.topology.configs import acceptable, for_new_topic
from twinlog.topology.selection import config_filter_of

_NAMED: Final = 3


class RemoteTopics:
    """Belongs to one thread. `warn(about, text)` drops what it has heard before; without a text, it forgets."""

    def __init__(
        self, config: FlowConfig, source: Client, target: Client, warn: Callable[[str, str | None], None]
    ) -> None:
        assert config.source is not None
        self._flow = config.flow
        self._settings = config.source.settings
        self._accepts = config_filter_of(config).accepts
        self._source = source
        self._target = target
        self._warn = warn

    def make(
        self, topics: Mapping[str, TopicInfo], remote: Mapping[str, str], there: Mapping[str, TopicInfo]
    ) -> list[str]:
        """`topics` are the source's, `remote` their names on the target, `there` what the target has; which changed."""
        new = [name for name in topics if _absent(there.get(remote[name]))]
        configs = self._configs(new) if new else {}
        return [
            name
            for name, info in topics.items()
            if self._make(name, len(info.leaders), remote[name], there.get(remote[name]), configs)
        ]

    def _make(
        self, name: str, count: int, remote: str, there: TopicInfo | None, configs: Mapping[str, dict[str, str]]
    ) -> bool:
        try:
            if there is None or _absent(there):
                if name not in configs:  # it vanished meanwhile
                    return False
                self._create(remote, count, configs[name])
            elif there.error:
                self._warn(name, f"topic {remote} of {self._flow.target}: {codes.name(there.error)}")
                return False
            elif len(there.leaders) < count:
                self._target.grow_topic(remote, count)
            else:
                self._compare(name, count, remote, len(there.leaders))
                return False
        except RefusedError as error:
            self._warn(name, f"{error}{self._hint(error, there)}")
            return False
        self._warn(name, None)
        return True

    @staticmethod
    def _hint(error: RefusedError, there: TopicInfo | None) -> str:
        if error.code == codes.INVALID_REPLICATION_FACTOR:
            return ": set replication.factor to at most the number of brokers"
        if there is not None and there.leaders:
            return f": only its partitions 0 to {len(there.leaders) - 1} are copied"
        return ""

    def _compare(self, name: str, count: int, remote: str, have: int) -> None:
        more = None
        if have > count:
            more = (
                f"topic {remote} of {self._flow.target} has {have} partitions, {name} of {self._flow.source} has "
                f"{count}: records keep their partition, but whoever writes there by key would choose another one"
            )
        self._warn(f"partitions of {name}", more)

    # With which configs

    def _configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """By topic; empty where they cannot be read. Topics that vanished are not in it."""
        wanted = list(names)
        try:
            found, failed = Admin(self._source).topic_configs(wanted)
        except RefusedError as error:
            found, failed = {}, dict.fromkeys(wanted, error.code)
        defaults = self._settings.use_defaults_from == "source"
        configs = {
            name: for_new_topic(entries, self._accepts, defaults_from_source=defaults)
            for name, entries in found.items()
        }
        unread: dict[int, list[str]] = {}
        for name, code in failed.items():
            if code not in codes.GONE:
                configs[name] = {}
                unread.setdefault(code, []).append(name)
        for code, topics in unread.items():
            self._warn(
                f"configs not read: {code}",
                f"cluster {self._flow.source}: the configs of {some_of(topics)} cannot be read ({codes.name(code)}), "
                "so their remote topics are made with the target's defaults: grant DESCRIBE_CONFIGS",
            )
        return configs

    def _create(self, remote: str, count: int, configs: dict[str, str]) -> None:
        factor = self._settings.replication_factor
        try:
            self._target.create_topic(remote, count, factor, configs)
        except RefusedError as error:
            if not configs or error.code not in codes.BAD_CONFIG:
                raise
            admin = Admin(self._target)
            if admin.refuses_topic(remote, count, factor, {}):  # so it is not because of the configs
                raise
            taken, left = acceptable(
                list(configs.items()), lambda some: admin.refuses_topic(remote, count, factor, dict(some)) is None
            )
            self._target.create_topic(remote, count, factor, dict(taken))
            without = ", ".join(f"{key} = {value}" for key, value in left)
            self._warn(f"configs of {remote}", f"topic {remote} is made without {without}: {error}")


def some_of(names: Iterable[str]) -> str:
    """For a message: a few of them, and how many more there are."""
    every = sorted(names)
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more


def _absent(there: TopicInfo | None) -> bool:
    return there is None or there.error == codes.UNKNOWN_TOPIC_OR_PARTITION
