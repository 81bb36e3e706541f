"""Runs flows: supervisor, Spark queries, task reports, status."""
