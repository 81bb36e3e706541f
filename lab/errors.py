"""The error of the lab, the bench, the demo and the examples."""


class LabError(Exception):
    """A cluster, MM2 or another program of the lab failed, or a result is wrong."""

    exit_code = 1
