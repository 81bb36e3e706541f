"""MM2's metrics in the new format of 4.3 (KIP-1280, `metric.names.formats`).

They are in kafka.connect:type=plugins, with the labels connector and task. The attributes are those of the legacy
format, and Strimzi's rules do not rename them.
"""

from collections.abc import Iterator
from typing import Any, Final

from twinlog.metrics.connectors import NEW, SOURCE
from twinlog.metrics.metric import Section
from twinlog.metrics.mm2 import OF_GROUP, OF_TASK, Mirrored, checkpoint_metrics, mirror_metrics, mirrored
from twinlog.metrics.scrape import OF_MIRROR, Scrape
from twinlog.metrics.text_format import jmx, labels
from twinlog.sync.group_status import GroupStatus

_NEW_MIRROR: Final = (*OF_TASK, *OF_MIRROR)
_NEW_GROUP: Final = (*OF_TASK, *OF_GROUP)
_PLUGINS: Final = "kafka_connect_plugins"


def _plugin_partitions(scrape: Scrape) -> Iterator[tuple[str, Mirrored]]:
    """With the connector as a label, two flows between the same clusters never collide."""
    for flow in scrape.flows:
        if NEW not in flow.formats:
            continue
        connector, source, target = jmx(flow.connector), jmx(flow.status.source), jmx(flow.status.target)
        for _, each in flow.own:
            values = (connector, max(each.task, 0), source, target, jmx(each.remote), each.partition)
            yield labels(_NEW_MIRROR, values), mirrored(each, flow.now)


def _plugin_groups(scrape: Scrape) -> Iterator[tuple[str, GroupStatus]]:
    seen: set[str] = set()
    for flow in scrape.flows:
        if flow.checkpoints is None or NEW not in flow.checkpoints.formats:
            continue
        common = (jmx(flow.checkpoints.name), 0, jmx(flow.status.source), jmx(flow.status.target))
        for each in list(flow.status.groups):
            text = labels(_NEW_GROUP, (*common, jmx(each.group), jmx(each.topic), each.partition))
            if text not in seen:
                seen.add(text)
                yield text, each


SECTIONS: Final[tuple[Section[Any], ...]] = (
    Section(
        f"{SOURCE}, per partition of a remote topic",
        "",
        _NEW_MIRROR,
        _plugin_partitions,
        mirror_metrics(_PLUGINS),
    ),
    Section(
        "MirrorCheckpointConnector, per group and partition of a remote topic",
        "`task` is always 0.",
        _NEW_GROUP,
        _plugin_groups,
        checkpoint_metrics(_PLUGINS),
    ),
)
