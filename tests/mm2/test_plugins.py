"""Policies and filters of the operator's own."""

import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from twinlog.config import FlowConfig
from twinlog.errors import ConfigError
from twinlog.mm2.replication_policy import policy_of
from twinlog.mm2.selection import (
    checkpoint_topics_of,
    config_filter_of,
    group_selection_of,
    offset_syncs_location,
    selection_of,
)

ReadFlow = Callable[..., FlowConfig]

MODULE = '''
from twinlog.mm2.plugins import NameFilter
from twinlog.mm2.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy

class Plain(NameFilter):
    def accepts(self, name):
        return name.startswith("o")

class Told:
    twinlog_plugin = True

    def __init__(self, settings):
        self.word = settings["acme.word"]

    def accepts(self, name):
        return self.word in name

class Suffix(DefaultReplicationPolicy):
    """orders-from-us"""

    def format_remote_topic(self, alias, topic):
        return f"{topic}-from-{alias}"

    def topic_source(self, topic):
        return topic.rpartition("-from-")[2] if "-from-" in topic else None

    def upstream_topic(self, topic):
        return topic.rpartition("-from-")[0] if "-from-" in topic else None

class Same(IdentityReplicationPolicy):
    pass

class Half:
    def format_remote_topic(self, alias, topic):
        return topic

class Fails(NameFilter):
    def __init__(self, settings):
        raise RuntimeError("no\\nword")

    def accepts(self, name):
        return True

class Unmarked:
    def __init__(self, settings):
        raise AssertionError("it was constructed")

    def accepts(self, name):
        return True

class Nothing(NameFilter):
    def __init__(self, settings):
        raise AssertionError("it was constructed")

class Stub(ReplicationPolicy):
    pass

class Breaks(NameFilter):
    def accepts(self, name):
        raise RuntimeError("broken")

class Outer:
    class Inner(Plain):
        pass

number = 5
'''


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    package = tmp_path / "acme_plugins"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "names.py").write_text(MODULE)
    (package / "broken.py").write_text("import nothing_like_this\n")
    (package / "wrong.py").write_text("def f(:\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in [name for name in sys.modules if name.startswith("acme_plugins")]:
        del sys.modules[name]


@pytest.mark.usefixtures("acme")
class TestFilters:
    def test_a_filter_of_topics(self, read_flow: ReadFlow) -> None:
        flow = read_flow("topic.filter.class = acme_plugins.names:Plain", "topics = clicks")
        selection = selection_of(flow)
        assert [topic for topic in ("orders", "clicks", "B.orders", "heartbeats") if selection.selects(topic)] == [
            "orders",
            "heartbeats",
        ]
        assert selection.reason("orders") == (
            "replicated as A.orders: topic.filter.class acme_plugins.names:Plain accepts it"
        )
        assert selection.reason("clicks") == (
            "not replicated: topic.filter.class acme_plugins.names:Plain does not accept it"
        )
        assert checkpoint_topics_of(flow).accepts("orders")
        assert not checkpoint_topics_of(flow).accepts("clicks")

    def test_a_filter_of_groups_that_reads_the_settings(self, read_flow: ReadFlow) -> None:
        flow = read_flow("A->B.group.filter.class = acme_plugins.names:Told", "A->B.acme.word = bill")
        groups = group_selection_of(flow)
        assert groups.selects("billing")
        assert not groups.selects("shipping")
        assert groups.reason("shipping") == (
            "not followed: group.filter.class acme_plugins.names:Told does not accept it"
        )

    def test_a_filter_of_configs(self, read_flow: ReadFlow) -> None:
        chosen = config_filter_of(read_flow("config.property.filter.class = acme_plugins.names:Outer.Inner"))
        assert chosen.accepts("organic")
        assert not chosen.accepts("retention.ms")

    def test_one_that_breaks_is_named(self, read_flow: ReadFlow) -> None:
        selection = selection_of(read_flow("topic.filter.class = acme_plugins.names:Breaks"))
        with pytest.raises(
            ConfigError,
            match=r"^topic\.filter\.class = 'acme_plugins\.names:Breaks': accepts\('t'\) failed: RuntimeError: broken$",
        ):
            selection.selects("t")

    def test_it_can_be_pickled(self, read_flow: ReadFlow) -> None:
        selection = selection_of(read_flow("topic.filter.class = acme_plugins.names:Plain"))
        assert pickle.loads(pickle.dumps(selection)).selects("orders")


@pytest.mark.usefixtures("acme")
class TestPolicies:
    def test_a_policy(self, read_flow: ReadFlow) -> None:
        flow = read_flow("replication.policy.class = acme_plugins.names:Suffix")
        selection = selection_of(flow)
        assert selection.remote_name("orders") == "orders-from-A"
        assert selection.cycle_through("orders-from-B") == "B"
        assert selection.selects("orders-from-C")
        assert offset_syncs_location(flow) == ("source", "mm2-offset-syncs.B.internal")

    def test_a_subclass_of_ours_gets_the_separator_and_the_alias(self, read_flow: ReadFlow) -> None:
        flow = read_flow("replication.policy.class = acme_plugins.names:Same", "replication.policy.separator = _")
        assert flow.source is not None
        policy = policy_of(flow.source)
        assert policy.topic_source("orders") == "A"
        assert policy.checkpoints_topic("A") == "A_checkpoints_internal"


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("acme_plugins.nowhere:Plain", "no module 'acme_plugins.nowhere'; install it, or add its directory to PYTHONPATH"),
        ("nowhere.at_all:Plain", "no module 'nowhere'; install it, or add its directory to PYTHONPATH"),
        ("acme_plugins.broken:Plain", "import failed: ModuleNotFoundError: No module named 'nothing_like_this'"),
        ("acme_plugins.wrong:Plain", "import failed: SyntaxError: invalid syntax (wrong.py, line 1)"),
        ("acme_plugins.names:Nobody", "module 'acme_plugins.names' has no class 'Nobody'"),
        ("acme_plugins.names:Outer.Nobody", "module 'acme_plugins.names' has no class 'Outer.Nobody'"),
        ("acme_plugins.names:number", "not a class"),
        ("acme_plugins.names:Fails", "constructor failed: RuntimeError: no word"),
        ("acme_plugins.names:Half", "no method accepts"),
        ("acme_plugins.names:Nothing", "no method accepts"),
        ("subprocess:Popen", "no method accepts"),
        ("acme_plugins.names:Unmarked", "not marked as a plugin; derive it from twinlog.mm2.plugins.NameFilter, or add the attribute twinlog_plugin = True"),
    ],
)  # fmt: skip
def test_mistakes(read_flow: ReadFlow, name: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        selection_of(read_flow(f"topic.filter.class = {name}"))
    assert str(caught.value) == f"topic.filter.class = {name!r}: {complaint}"


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize("name", ["Half", "Stub"])
def test_a_policy_without_all_its_methods(read_flow: ReadFlow, name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^replication\.policy\.class = 'acme_plugins\.names:{name}': no method"):
        selection_of(read_flow(f"replication.policy.class = acme_plugins.names:{name}"))


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("replication.policy.class", "the methods of twinlog.mm2.replication_policy.ReplicationPolicy"),
        ("topic.filter.class", "accepts(name)"),
        ("group.filter.class", "accepts(name)"),
        ("config.property.filter.class", "accepts(name)"),
    ],
)
@pytest.mark.parametrize("name", ["com.acme.Mine", "acme:", ":Mine", "acme.x:1", "a:b:c"])
def test_another_java_class_is_refused_with_advice(read_flow: ReadFlow, key: str, what: str, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_flow(f"{key} = {name}")
    assert f"{key} = {name!r}: Java classes cannot be run; use org.apache.kafka.connect.mirror." in str(caught.value)
    assert f", or a Python class (package.module:Class) with {what}" in str(caught.value)


def test_the_admins_class(read_flow: ReadFlow) -> None:
    read_flow("forwarding.admin.class = acme.admin:Mine")
    with pytest.raises(ConfigError, match=r"with the methods of twinlog\.mm2\.plugins\.TopicAdmin$"):
        read_flow("forwarding.admin.class = com.acme.Mine")
