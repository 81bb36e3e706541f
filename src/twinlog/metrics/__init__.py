"""Prometheus metrics: one table, from which the exposition and docs/metrics.md are generated."""
