"""Read-only inspection of both clusters of a flow, for plan, why, compare and doctor."""
