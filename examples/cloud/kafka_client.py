"""How this example's producer and consumer log in, in the cloud and at a local Kafka: by variables of the environment.

KAFKA_BROKERS    host:port,host:port
KAFKA_APIKEY     the API key; with it: SASL_SSL and PLAIN, as the user "token"
KAFKA_CERT       a PEM file with the CA; without an API key: TLS alone. Not needed where the CA is a public one
"""

from collections.abc import Mapping


def client_properties(environment: Mapping[str, str]) -> dict[str, str]:
    found = {"bootstrap.servers": environment["KAFKA_BROKERS"]}
    if ca := environment.get("KAFKA_CERT"):
        found |= {"security.protocol": "ssl", "ssl.ca.location": ca}
    if key := environment.get("KAFKA_APIKEY"):
        found |= {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "token",
            "sasl.password": key,
        }
    return found
