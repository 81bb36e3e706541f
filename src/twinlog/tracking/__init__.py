"""The records beside the data: the bytes of MM2's own topics, and when they are due."""
