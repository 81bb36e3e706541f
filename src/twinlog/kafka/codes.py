"""Kafka's error codes, in the groups that call for the same answer."""

from typing import Final

import kafka.errors

NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
CORRUPT_MESSAGE: Final = 2
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
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
NON_EMPTY_GROUP: Final = 68
GROUP_ID_NOT_FOUND: Final = 69
FETCH_SESSION_ID_NOT_FOUND: Final = 70
INVALID_FETCH_SESSION_EPOCH: Final = 71
UNKNOWN_TOPIC_ID: Final = 100
INCONSISTENT_TOPIC_ID: Final = 103
FETCH_SESSION_TOPIC_ID: Final = 106
INVALID_RECORD: Final = 87

TOO_LARGE: Final = frozenset({MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE})
# The leader is elsewhere, or on its way: ask for metadata, try again.
MOVED: Final = frozenset({3, 5, 6, 7, 8, 9, 13, 56, 74, 75, 76, 19, 20, 100, 103})
SESSION: Final = frozenset({FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID, 108})
GONE: Final = frozenset({UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID})
# A broker that has only just started.
COORDINATOR: Final = frozenset({14, 15, 16, 7})
DENIED: Final = frozenset({29, 30, 31, 53, 58})
# What one setting did wrong, among those of a topic; or what a policy of the cluster's operator thinks of it.
BAD_CONFIG: Final = frozenset({INVALID_CONFIG, POLICY_VIOLATION})
# What one batch did wrong, whoever sends it and whenever.
BAD_RECORDS: Final = TOO_LARGE | {INVALID_TIMESTAMP, INVALID_RECORD, CORRUPT_MESSAGE}


def name(code: int) -> str:
    """As Kafka spells it: `NOT_LEADER_OR_FOLLOWER`."""
    error = kafka.errors.for_code(code)
    return str(getattr(error, "message", None) or f"error {code}")
