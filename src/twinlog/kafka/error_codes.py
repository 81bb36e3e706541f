"""Kafka's error codes, grouped by the reaction that they need."""

from typing import Final

import kafka.errors

NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
CORRUPT_MESSAGE: Final = 2
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
MESSAGE_TOO_LARGE: Final = 10
COORDINATOR_NOT_AVAILABLE: Final = 15
RECORD_LIST_TOO_LARGE: Final = 18
UNKNOWN_MEMBER_ID: Final = 25
TOPIC_AUTHORIZATION_FAILED: Final = 29
GROUP_AUTHORIZATION_FAILED: Final = 30
CLUSTER_AUTHORIZATION_FAILED: Final = 31
INVALID_TIMESTAMP: Final = 32
UNSUPPORTED_SASL_MECHANISM: Final = 33
ILLEGAL_SASL_STATE: Final = 34
UNSUPPORTED_VERSION: Final = 35
TOPIC_ALREADY_EXISTS: Final = 36
INVALID_REPLICATION_FACTOR: Final = 38
INVALID_CONFIG: Final = 40
POLICY_VIOLATION: Final = 44
SECURITY_DISABLED: Final = 54
GROUP_ID_NOT_FOUND: Final = 69
FETCH_SESSION_ID_NOT_FOUND: Final = 70
INVALID_FETCH_SESSION_EPOCH: Final = 71
OFFSET_NOT_AVAILABLE: Final = 78
INVALID_RECORD: Final = 87
UNKNOWN_TOPIC_ID: Final = 100
INCONSISTENT_TOPIC_ID: Final = 103
FETCH_SESSION_TOPIC_ID: Final = 106
NEW_LEADER_ELECTED: Final = 108

TOO_LARGE: Final = frozenset({MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE})
# The leader has changed, or is being elected: refresh metadata and retry. A new leader returns 78 until it knows the
# high watermark; a former leader returns 108.
LEADER_CHANGED: Final = frozenset(
    {3, 5, 6, 7, 8, 9, 13, 56, 74, 75, OFFSET_NOT_AVAILABLE, 19, 20, 100, 103, NEW_LEADER_ELECTED}
)
FETCH_SESSION_LOST: Final = frozenset({FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID})
TOPIC_MISSING: Final = frozenset({UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID})
# The coordinator is loading, moving or unknown: retry.
COORDINATOR: Final = frozenset({14, 15, 16, 7})
UNAUTHORIZED: Final = frozenset(
    {TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, 53, 58}
)
# A topic config is invalid, or rejected by a policy of the cluster.
BAD_CONFIG: Final = frozenset({INVALID_CONFIG, POLICY_VIOLATION})
# The batch itself is rejected: a retry cannot succeed.
BAD_RECORDS: Final = TOO_LARGE | {INVALID_TIMESTAMP, INVALID_RECORD, CORRUPT_MESSAGE}


# Where kafka-python's name is not the one that Kafka's logs and documentation have.
_NAMES: Final = {
    -1: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    6: "NOT_LEADER_OR_FOLLOWER",
    MESSAGE_TOO_LARGE: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
}


def name(code: int) -> str:
    """Kafka's name of the code, such as `NOT_LEADER_OR_FOLLOWER`; `error 128` if it is newer than kafka-python."""
    if code in _NAMES:
        return _NAMES[code]
    error = kafka.errors.for_code(code)  # a subclass of UnknownError for a code that it does not know
    return f"error {code}" if issubclass(error, kafka.errors.UnknownError) else str(error.message)
