"""Error codes have the names that Kafka's logs and documentation have."""

import pytest

from lab.kafka_classes import KafkaJvm
from twinlog.kafka import error_codes


@pytest.mark.java
def test_names_are_those_of_kafka(kafka_jvm: KafkaJvm) -> None:
    errors = kafka_jvm.jvm.org.apache.kafka.common.protocol.Errors.values()
    names = {error.code(): error.name() for error in errors}
    ours = {code: error_codes.name(code) for code in names}
    newer = {code for code, name in ours.items() if name == f"error {code}"}
    assert {code: name for code, name in ours.items() if code not in newer} == {
        code: name for code, name in names.items() if code not in newer
    }
    assert all(code > 127 for code in newer)  # those that kafka-python does not know yet
