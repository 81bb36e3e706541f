"""A Kafka Connect worker for MM2's three connectors, without the HTTP layer."""
