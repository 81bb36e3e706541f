"""A SASL login on a real broker: SaslHandshake and SaslAuthenticate only, on a plaintext or TLS socket."""

import socket
import ssl
from collections.abc import Mapping
from typing import Any

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from lab.cluster import Cluster
from lab.listeners import Listener
from lab.ports import HOST
from twinlog.config.flows import Client
from twinlog.config.values import DEFAULT, FrozenMap, Value
from twinlog.kafka.blocking_connection import BlockingConnection
from twinlog.security.sasl import login


def client(properties: Mapping[str, str]) -> Client:
    return Client("admin", FrozenMap({key: Value(key, text, DEFAULT) for key, text in properties.items()}))


def jaas(module: str, **options: str) -> str:
    words = "".join(f' {key}="{text}"' for key, text in options.items())
    return f"org.apache.kafka.common.security.{module}LoginModule required{words};"


def authenticate(cluster: Cluster, listener: Listener, properties: Mapping[str, str], host: str = HOST) -> int:
    """Logs in through that listener with these settings; returns the session lifetime in ms, 0 if unlimited."""
    exchange = login(client(properties), host)
    sock = socket.create_connection((HOST, cluster.brokers[0].ports[listener]), 10)
    if listener.tls:
        assert cluster.authority is not None
        sock = ssl.create_default_context(cafile=str(cluster.authority.ca)).wrap_socket(sock, server_hostname=HOST)
    with sock:
        channel = BlockingConnection(sock, "authenticate")
        answer = channel.send(SaslHandshakeRequest(version=1, mechanism=exchange.mechanism), 10)
        assert not answer.error_code, answer
        token: bytes | None = exchange.first()
        answered: Any = None
        while token is not None:
            answered = channel.send(SaslAuthenticateRequest(version=2, auth_bytes=token), 10)
            if answered.error_code:
                raise exchange.refused(answered.error_message or str(answered.error_code))
            token = exchange.next(bytes(answered.auth_bytes))
        return int(answered.session_lifetime_ms)
