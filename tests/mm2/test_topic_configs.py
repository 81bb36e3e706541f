"""Which configs a remote topic gets: section 3.4."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.kafka_classes import KafkaJvm
from twinlog.config import FlowConfig
from twinlog.kafka.resources import (
    DEFAULT_CONFIG,
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    STATIC_BROKER_CONFIG,
    TOPIC_CONFIG,
    ConfigChange,
    ConfigEntry,
)
from twinlog.mm2.selection import config_filter_of
from twinlog.mm2.topic_configs import acceptable, changes, for_new_topic, known_to

ReadFlow = Callable[..., FlowConfig]
Invoke = Callable[..., Any]
MIRROR = "org.apache.kafka.connect.mirror."


def entries(*of: ConfigEntry) -> dict[str, ConfigEntry]:
    return {entry.name: entry for entry in of}


def everything(_: str) -> bool:
    return True


SOURCE = entries(
    ConfigEntry("cleanup.policy", "compact", TOPIC_CONFIG),
    ConfigEntry("retention.ms", "604800000", DEFAULT_CONFIG),
    ConfigEntry("segment.bytes", "1000000", DYNAMIC_BROKER_CONFIG),
    ConfigEntry("segment.ms", "7000000", DYNAMIC_DEFAULT_BROKER_CONFIG),
    ConfigEntry("max.message.bytes", "5000", STATIC_BROKER_CONFIG),
    ConfigEntry("min.insync.replicas", "2", TOPIC_CONFIG),
    ConfigEntry("odd.read.only", "x", TOPIC_CONFIG, read_only=True),
    ConfigEntry("odd.secret", None, TOPIC_CONFIG, sensitive=True),
)


class TestANewTopic:
    def test_what_the_operator_set_is_copied_wherever_it_was_set_but_in_a_brokers_file(
        self, read_flow: ReadFlow
    ) -> None:
        accepts = config_filter_of(read_flow()).accepts
        assert for_new_topic(SOURCE, accepts, defaults_from_source=False) == {
            "cleanup.policy": "compact",
            "segment.bytes": "1000000",
            "segment.ms": "7000000",
        }

    def test_with_the_sources_defaults(self, read_flow: ReadFlow) -> None:
        accepts = config_filter_of(read_flow()).accepts
        assert for_new_topic(SOURCE, accepts, defaults_from_source=True) == {
            "cleanup.policy": "compact",
            "retention.ms": "604800000",
            "segment.bytes": "1000000",
            "segment.ms": "7000000",
        }

    def test_a_value_that_is_not_there_is_not_written(self) -> None:
        source = entries(ConfigEntry("x", None, DEFAULT_CONFIG))
        assert for_new_topic(source, everything, defaults_from_source=True) == {}


class TestAnExistingTopic:
    def test_a_value_of_the_sources_own_is_set(self) -> None:
        source = entries(ConfigEntry("retention.ms", "5", TOPIC_CONFIG))
        target = entries(ConfigEntry("retention.ms", "6", TOPIC_CONFIG))
        assert changes(source, target, everything, defaults_from_source=False) == [ConfigChange("retention.ms", "5")]

    def test_even_if_it_is_the_targets_default(self) -> None:
        """MM2 sets it, too: the remote topic then keeps it when the default changes."""
        source = entries(ConfigEntry("retention.ms", "5", TOPIC_CONFIG))
        target = entries(ConfigEntry("retention.ms", "5", DEFAULT_CONFIG))
        assert changes(source, target, everything, defaults_from_source=False) == [ConfigChange("retention.ms", "5")]

    def test_configs_set_on_the_target_are_removed(self) -> None:
        source = entries(ConfigEntry("retention.ms", "5", DEFAULT_CONFIG))
        target = entries(ConfigEntry("retention.ms", "5", TOPIC_CONFIG))
        assert changes(source, target, everything, defaults_from_source=False) == [ConfigChange("retention.ms", None)]

    def test_the_sources_default_is_set_where_it_is_wanted(self) -> None:
        source = entries(ConfigEntry("retention.ms", "5", DEFAULT_CONFIG))
        target = entries(ConfigEntry("retention.ms", "6", DEFAULT_CONFIG))
        assert changes(source, target, everything, defaults_from_source=True) == [ConfigChange("retention.ms", "5")]
        assert changes(source, target, everything, defaults_from_source=False) == []

    def test_static_broker_configs_are_not_copied(self) -> None:
        source = entries(ConfigEntry("retention.ms", "5", STATIC_BROKER_CONFIG))
        target = entries(ConfigEntry("retention.ms", "6", TOPIC_CONFIG))
        assert changes(source, target, everything, defaults_from_source=True) == []

    def test_what_is_excluded_is_never_touched(self, read_flow: ReadFlow) -> None:
        accepts = config_filter_of(read_flow("config.properties.exclude = retention\\\\..*")).accepts
        source = entries(ConfigEntry("retention.ms", "5", TOPIC_CONFIG), ConfigEntry("segment.ms", "5", TOPIC_CONFIG))
        target = entries(ConfigEntry("retention.ms", "6", TOPIC_CONFIG), ConfigEntry("segment.ms", "6", TOPIC_CONFIG))
        assert changes(source, target, accepts, defaults_from_source=False) == [ConfigChange("segment.ms", "5")]

    def test_what_the_target_does_not_know_does_not_hold_up_the_rest(self) -> None:
        target = entries(ConfigEntry("retention.ms", "6", DEFAULT_CONFIG))
        known, unknown = ConfigChange("retention.ms", "5"), ConfigChange("from.the.future", "5")
        assert known_to(target, [unknown, known]) == ([known], [unknown])


_NAMES = st.sampled_from(["a", "b", "c", "d"])
_ENTRIES = st.lists(
    st.builds(
        ConfigEntry,
        _NAMES,
        st.sampled_from(["1", "2"]),
        st.sampled_from([TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG]),
        st.booleans(),
        st.booleans(),
    )
).map(lambda found: entries(*found))


@given(source=_ENTRIES, target=_ENTRIES, defaults=st.booleans())
def test_the_outcome_is_that_of_mm2_and_then_there_is_nothing_left_to_do(
    source: dict[str, ConfigEntry], target: dict[str, ConfigEntry], defaults: bool
) -> None:
    """MM2 sets or deletes every kept entry, whatever the target has."""
    own = {name: entry.value for name, entry in target.items() if entry.source == TOPIC_CONFIG}
    mm2s = dict(own)
    for entry in source.values():
        if entry.read_only or entry.sensitive or entry.source == STATIC_BROKER_CONFIG:
            continue
        if entry.is_default and not defaults:
            mm2s.pop(entry.name, None)
        else:
            mm2s[entry.name] = entry.value
    for change in changes(source, target, everything, defaults_from_source=defaults):
        if change.value is None:
            del own[change.name]
        else:
            assert own.get(change.name) != change.value
            own[change.name] = change.value
    assert own == mm2s
    after = entries(*(ConfigEntry(name, value, TOPIC_CONFIG) for name, value in own.items()))
    assert changes(source, after, everything, defaults_from_source=defaults) == []


class TestWhatATargetTakes:
    def test_all(self) -> None:
        assert acceptable(["a", "b"], lambda _: True) == (["a", "b"], [])

    def test_all_but_the_bad_ones(self) -> None:
        assert acceptable(["a", "bad", "b", "worse"], lambda some: not {"bad", "worse"} & set(some)) == (
            ["a", "b"],
            ["bad", "worse"],
        )

    def test_one_that_is_good_only_beside_another(self) -> None:
        def accepted(some: list[str]) -> bool:
            return "bad" not in some and ("local" not in some or "retention" in some)

        assert acceptable(["local", "bad", "retention"], accepted) == (["local", "retention"], ["bad"])

    def test_nothing(self) -> None:
        assert acceptable(["a", "b"], lambda _: False) == ([], ["a", "b"])


@pytest.mark.java
@pytest.mark.parametrize("defaults", ["source", "target"])
def test_mm2_keeps_the_same(kafka_jvm: KafkaJvm, invoke: Invoke, read_flow: ReadFlow, defaults: str) -> None:
    """`targetConfig` of its connector: what is created with, and what is synced."""
    flow = read_flow(f"A->B.use.defaults.from = {defaults}", "config.properties.exclude = b, c\\\\d?")
    assert flow.source is not None
    texts = {key: value.text for key, value in flow.source.values.items()}
    mirror, java = kafka_jvm.jvm.org.apache.kafka.connect.mirror, kafka_jvm.jvm.java.util
    config_filter, topic_filter = mirror.DefaultConfigPropertyFilter(), mirror.DefaultTopicFilter()
    config_filter.configure(kafka_jvm.map(texts))
    topic_filter.configure(kafka_jvm.map(texts))
    theirs = invoke(
        f"{MIRROR}MirrorSourceConnector", "new", mirror.SourceAndTarget("A", "B"), mirror.DefaultReplicationPolicy(),
        topic_filter, config_filter, True,  # noqa: FBT003  # heartbeats
    )  # fmt: skip
    admin = kafka_jvm.jvm.org.apache.kafka.clients.admin
    sources = admin.ConfigEntry.ConfigSource
    numbers = {
        TOPIC_CONFIG: sources.DYNAMIC_TOPIC_CONFIG,
        DYNAMIC_BROKER_CONFIG: sources.DYNAMIC_BROKER_CONFIG,
        DYNAMIC_DEFAULT_BROKER_CONFIG: sources.DYNAMIC_DEFAULT_BROKER_CONFIG,
        STATIC_BROKER_CONFIG: sources.STATIC_BROKER_CONFIG,
        DEFAULT_CONFIG: sources.DEFAULT_CONFIG,
    }
    kind = admin.ConfigEntry.ConfigType.STRING
    accepts = config_filter_of(flow).accepts
    rng = random.Random(defaults)
    for _ in range(60):
        ours = entries(
            *(
                ConfigEntry(name, "v", rng.choice(list(numbers)), rng.random() < 0.1, rng.random() < 0.1)
                for name in ("a", "b", "c", "c1", "d", "cd")
            )
        )
        listed = java.ArrayList()
        for entry in ours.values():
            listed.add(
                admin.ConfigEntry(
                    entry.name, entry.value, numbers[entry.source], entry.sensitive, entry.read_only,
                    java.ArrayList(), kind, "",
                )
            )  # fmt: skip
        config = admin.Config(listed)
        created, synced = (
            {
                each.name(): each.isDefault()
                for each in invoke(theirs, "targetConfig", config, which).entries().toArray()
            }
            for which in (False, True)
        )
        assert for_new_topic(ours, accepts, defaults_from_source=defaults == "source").keys() == created.keys()
        # Seen from a target that has a value of its own for everything, a change is due for each that MM2 syncs.
        other = {name: ConfigEntry(name, "w", TOPIC_CONFIG) for name in ours}
        due = changes(ours, other, accepts, defaults_from_source=defaults == "source")
        assert {change.name: change.value is None for change in due} == {
            name: default and not config_filter.shouldReplicateSourceDefault(name) for name, default in synced.items()
        }
