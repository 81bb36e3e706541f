"""The status of flows, assembled from the reports of their tasks and supervisors."""
