"""One snapshot of everything, put together from what tasks report."""
