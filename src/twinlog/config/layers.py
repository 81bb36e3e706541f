"""MM2's layering: which of a connector's and a worker's settings reach which Kafka client. Later layers win.

| client of a connector | layers                                                             |
|-----------------------|--------------------------------------------------------------------|
| source.consumer       | source.cluster.* (connection keys) < consumer.* < source.consumer.* |
| target.producer, ...  | likewise                                                           |
| data.producer         | the worker's producer.* < the connector's producer.override.*       |

So `us.consumer.x` (which becomes `source.consumer.x`) beats `us->eu.consumer.x`; and `producer.*` of a connector never
touches the records' own producer, which belongs to the worker.
"""

from collections.abc import Mapping

from twinlog.config.clients import CLIENT_KEYS, CLIENT_LETTERS, CONNECTION_KEYS
from twinlog.config.values import Value, derived

Values = Mapping[str, Value]

SIDES = ("source", "target")

# Connector keys that look like client keys (`consumer.poll.timeout.ms`): no client knows what is left of them.
_NOT_CLIENT = {"consumer.poll.timeout.ms", "admin.timeout.ms"}

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
    """The settings of one of a connector's own clients; side: source or target, client: consumer, producer or admin."""
    cluster = stripped(values, f"{side}.cluster.")
    made = {key: value for key, value in cluster.items() if key in CONNECTION_KEYS}
    of_clients = {key: value for key, value in values.items() if key not in _NOT_CLIENT}
    made |= stripped(of_clients, f"{client}.")
    made |= stripped(values, f"{side}.{client}.")
    if client == "consumer":
        made |= {key: derived(key, text, "always so in MM2") for key, text in _MM2_CONSUMER.items()}
        for key, text in _MM2_CONSUMER_DEFAULTS.items():
            made.setdefault(key, derived(key, text, "MM2's default"))
    return made


def connector_clients(values: Values) -> dict[str, dict[str, Value]]:
    return {f"{side}.{client}": connector_client(values, side, client) for side in SIDES for client in CLIENT_LETTERS}


def data_producer(worker: Values, connector: Values) -> dict[str, Value]:
    """The producer of the records themselves."""
    made = {key: derived(key, text, "Connect's default") for key, text in _CONNECT_PRODUCER_DEFAULTS.items()}
    made |= {key: worker[key] for key in ("bootstrap.servers",) if key in worker}  # nothing else is handed down
    made |= stripped(worker, "producer.")
    return made | stripped(connector, "producer.override.")


def letter(client: str) -> str:
    """Of `source.consumer`, `data.producer`, `admin` ...: the column in the table of client keys."""
    return CLIENT_LETTERS[client.rpartition(".")[2]]


def known_client_key(client: str, key: str) -> bool:
    return key in CLIENT_KEYS[letter(client)]
