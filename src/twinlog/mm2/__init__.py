"""MirrorMaker 2's rules and record formats. Pure: nothing here connects to a cluster."""
