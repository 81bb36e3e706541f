"""Creates remote topics as Strimzi's KafkaTopic resources, for clusters where only the Topic Operator creates topics.

    forwarding.admin.class = kafka_topics:KafkaTopics

Runs in Twinlog's pod, with the folder of this file on PYTHONPATH. Its service account needs create and patch on
kafkatopics.kafka.strimzi.io; the resources are created in its namespace, for the Kafka cluster that
STRIMZI_CLUSTER_<ALIAS> (by the target's alias) or STRIMZI_CLUSTER names.
"""

import hashlib
import json
import os
import re
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class KafkaTopics:
    twinlog_plugin = True

    def __init__(self, *, cluster: str) -> None:
        alias = re.sub(r"\W", "_", cluster).upper()
        self._kafka = os.environ.get(f"STRIMZI_CLUSTER_{alias}") or os.environ["STRIMZI_CLUSTER"]
        self._account = Path(os.environ.get("SERVICE_ACCOUNT", ACCOUNT))
        server = os.environ.get("KUBERNETES_API", "https://kubernetes.default.svc")
        namespace = (self._account / "namespace").read_text().strip()
        self._url = f"{server}/apis/kafka.strimzi.io/v1beta2/namespaces/{namespace}/kafkatopics"

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: dict[str, str]) -> None:
        spec: dict[str, Any] = {"topicName": name, "partitions": partitions, "config": configs}
        if replication_factor > 0:
            spec["replicas"] = replication_factor
        resource = {
            "apiVersion": "kafka.strimzi.io/v1beta2",
            "kind": "KafkaTopic",
            "metadata": {"name": resource_name(name), "labels": {"strimzi.io/cluster": self._kafka}},
            "spec": spec,
        }
        try:
            self._send("POST", self._url, resource, "application/json")
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 409:  # exists already: the Topic Operator has not created the topic yet
                    raise

    def create_partitions(self, name: str, partitions: int) -> None:
        self._patch(name, {"partitions": partitions})

    def alter_configs(self, name: str, configs: dict[str, str | None]) -> None:
        self._patch(name, {"config": configs})  # null removes a key

    def _patch(self, name: str, spec: dict[str, Any]) -> None:
        self._send("PATCH", f"{self._url}/{resource_name(name)}", {"spec": spec}, "application/merge-patch+json")

    def _send(self, method: str, url: str, content: dict[str, Any], kind: str) -> None:
        token = (self._account / "token").read_text().strip()  # Kubernetes renews it
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind, "Accept": "application/json"}
        request = urllib.request.Request(url, json.dumps(content).encode(), headers, method=method)  # noqa: S310
        context = ssl.create_default_context(cafile=str(self._account / "ca.crt")) if url.startswith("https") else None
        with urllib.request.urlopen(request, timeout=30, context=context) as response:  # noqa: S310
            response.read()


def resource_name(topic: str) -> str:
    """A valid Kubernetes name: topics may contain capitals and underscores."""
    if len(topic) <= 200 and re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", topic):
        return topic
    plain = re.sub("[^a-z0-9]+", "-", topic.lower()).strip("-")[:150]
    return f"{plain}---{hashlib.sha256(topic.encode()).hexdigest()[:16]}".lstrip("-")
