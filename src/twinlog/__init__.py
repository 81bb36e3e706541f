"""Twinlog keeps a Kafka cluster's twin: geo-replication, compatible with MirrorMaker 2."""

__version__ = "0.1.0"
__all__ = ["__version__"]
