"""HTTP responses that carry secrets: limited in size and time, never redirected."""

import time
import urllib.error
import urllib.request
from typing import Any, Final

from twinlog.errors import AuthenticationError
from twinlog.text import one_line

MAX_BYTES: Final = 1 << 18


class NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        """None: a redirect is handled as an HTTP error."""


def read_body(response: Any, deadline: float, what: str, advice: str) -> bytes:
    """`what` and `advice`: for the error (retriable) if the response is too large or too slow."""
    found = b""
    while part := response.read1(1 << 16):
        found += part
        if len(found) > MAX_BYTES or time.monotonic() > deadline:
            raise AuthenticationError(f"{what} is too large or too slow", advice, retriable=True)
    return found


def cause_of(error: Exception) -> str:
    """Why there is no response, in one line."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return one_line((reason.strerror if isinstance(reason, OSError) else "") or str(reason) or "no response")
