"""What Prometheus scrapes: one table of metrics, from which the exposition and its page in docs are made."""
