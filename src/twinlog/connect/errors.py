"""What a Connect worker refuses, with the HTTP status that it answers with."""

from twinlog.errors import TwinlogError


class ConnectError(TwinlogError):
    """`status` is HTTP's, and Connect's `error_code` as well."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
