"""A Kafka Connect worker for MM2's three connectors: what its REST API asks for, without HTTP."""
