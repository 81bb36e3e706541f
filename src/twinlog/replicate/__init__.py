"""Copies the partitions of one task: fetch from the source, produce to the target. Knows nothing of Spark."""
