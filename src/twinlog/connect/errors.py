"""Errors of the Connect worker, with their HTTP status."""

from twinlog.errors import TwinlogError


class ConnectError(TwinlogError):
    """`status`: the HTTP status, and the `error_code` in Connect's JSON."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status = status
