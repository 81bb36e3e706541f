"""What should be on the target: names, filters. Pure: nothing here talks to a cluster."""
