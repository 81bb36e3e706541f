"""`twinlog doctor`: finds problems of a flow's clusters, without changing anything."""
