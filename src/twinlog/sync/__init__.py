"""Syncs everything but records: remote topics, configs, ACLs, checkpoints, group offsets, heartbeats."""
