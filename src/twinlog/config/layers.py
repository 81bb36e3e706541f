"""MM2's layers: which settings of a connector and a worker reach which Kafka client. Later layers have precedence.

| client of a connector | layers                                                             |
|-----------------------|--------------------------------------------------------------------|
| source.consumer       | source.cluster.* (connection keys) < consumer.* < source.consumer.* |
| target.producer, ...  | the same                                                           |
| data.producer         | the worker's producer.* < the connector's producer.override.*       |

So `us.consumer.x` (which becomes `source.consumer.x`) overrides `us->eu.consumer.x`, and `producer.*` of a connector
does not affect the producer of the records, which belongs to the worker.
"""

from collections.abc import Mapping

from twinlog.config.clients import CLIENT_KEYS, CLIENT_LETTERS, CONNECTION_KEYS
from twinlog.config.values import Value, derived

Values = Mapping[str, Value]

SIDES = ("source", "target")

# Connector keys with the prefix of a client, which are not client keys.
_NOT_CLIENT_KEYS = {"consumer.poll.timeout.ms", "admin.timeout.ms"}

_MM2_CONSUMER = {"enable.auto.commit": "false"}
_MM2_CONSUMER_DEFAULTS = {"auto.offset.reset": "earliest"}
_CONNECT_PRODUCER_DEFAULTS = {
    "acks": "all",
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "1",
    "delivery.timeout.ms": str(2**31 - 1),
    "max.block.ms": str(2**63 - 1),
    "key.serializer": "org.apache.kafka.common.serialization.ByteArraySerializer",
    "value.serializer": "org.apache.kafka.common.serialization.ByteArraySerializer",
}


def stripped(values: Values, prefix: str) -> dict[str, Value]:
    """The values under a prefix, without it."""
    return {
        key.removeprefix(prefix): value.named(key.removeprefix(prefix))
        for key, value in values.items()
        if key.startswith(prefix)
    }


def connector_client(values: Values, side: str, client: str) -> dict[str, Value]:
    """The settings of one of a connector's clients; side: source or target, client: consumer, producer or admin."""
    cluster = stripped(values, f"{side}.cluster.")
    found = {key: value for key, value in cluster.items() if key in CONNECTION_KEYS}
    client_values = {key: value for key, value in values.items() if key not in _NOT_CLIENT_KEYS}
    found |= stripped(client_values, f"{client}.")
    found |= stripped(values, f"{side}.{client}.")
    if client == "consumer":
        found |= {key: derived(key, text, "fixed in MM2") for key, text in _MM2_CONSUMER.items()}
        for key, text in _MM2_CONSUMER_DEFAULTS.items():
            found.setdefault(key, derived(key, text, "MM2's default"))
    return found


def connector_clients(values: Values) -> dict[str, dict[str, Value]]:
    return {f"{side}.{client}": connector_client(values, side, client) for side in SIDES for client in CLIENT_LETTERS}


def data_producer(worker: Values, connector: Values) -> dict[str, Value]:
    """The producer of the records."""
    found = {key: derived(key, text, "Connect's default") for key, text in _CONNECT_PRODUCER_DEFAULTS.items()}
    found |= {key: worker[key] for key in ("bootstrap.servers",) if key in worker}  # the only one that is inherited
    found |= stripped(worker, "producer.")
    return found | stripped(connector, "producer.override.")


def letter(client: str) -> str:
    """The column of `source.consumer`, `data.producer`, `admin` ... in the table of client keys."""
    return CLIENT_LETTERS[client.rpartition(".")[2]]


def known_client_key(client: str, key: str) -> bool:
    return key in CLIENT_KEYS[letter(client)]
