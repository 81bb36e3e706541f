"""What is wrong with a flow's clusters, or would be: everything is tried that can be, nothing is changed."""
