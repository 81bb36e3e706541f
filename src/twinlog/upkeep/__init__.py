"""What a flow keeps in order beside its records: topics, configs, ACLs, heartbeats, checkpoints, group offsets."""
