"""Connection settings of this example's producer and consumer, from environment variables.

KAFKA_BROKERS    host:port,host:port
KAFKA_APIKEY     the API key: enables SASL_SSL with PLAIN, as the user "token"
KAFKA_CERT       a PEM file with the CA: enables TLS. Not needed for a public CA
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
