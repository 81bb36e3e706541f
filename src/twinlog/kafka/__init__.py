"""Kafka's protocol: the only package that talks to brokers."""
