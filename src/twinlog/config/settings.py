"""The table of settings: MM2's keys with MM2's defaults (Apache Kafka 4.3), as typed values.

Parsing, defaults, checks, `twinlog config show` and docs/config.md use this table. It is declared in common_settings,
connector_settings and worker_settings.
"""

from twinlog.config.common_settings import CommonSettings
from twinlog.config.connector_settings import (
    ALIASES,
    CONNECTORS,
    DROPPED,
    CheckpointSettings,
    HeartbeatSettings,
    SourceSettings,
    TopicSettings,
)
from twinlog.config.setting_checks import BYTE_ARRAY, MIRROR, SAME_CLASS
from twinlog.config.worker_settings import (
    NO_INTERNAL_REST,
    NO_WORKER,
    SERVE_READS,
    WORKER_CLIENT_KEYS,
    WORKER_WITHOUT_EFFECT,
    WorkerSettings,
    override_policy,
)

__all__ = [
    "ALIASES",
    "BYTE_ARRAY",
    "CONNECTORS",
    "DROPPED",
    "MIRROR",
    "NO_INTERNAL_REST",
    "NO_WORKER",
    "SAME_CLASS",
    "SERVE_READS",
    "WORKER_CLIENT_KEYS",
    "WORKER_WITHOUT_EFFECT",
    "CheckpointSettings",
    "CommonSettings",
    "HeartbeatSettings",
    "SourceSettings",
    "TopicSettings",
    "WorkerSettings",
    "override_policy",
]
