"""HTTP requests for AWS credentials: limited in size and time, never redirected because they carry secrets."""

import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security.limited_http import NoRedirects, cause_of, read_body
from twinlog.text import redacted_url


@dataclass(frozen=True, slots=True, repr=False)
class HttpResponse:
    status: int
    content: bytes


def send(
    url: str,
    headers: Mapping[str, str],
    *,
    body: bytes | None = None,
    method: str | None = None,
    seconds: float = 5.0,
    proxies: bool = False,
) -> HttpResponse:
    """The response, whatever its status. AuthenticationError (retriable) if there is none in time.

    `proxies`: whether the environment's HTTP proxies are used. They are not for addresses of this machine or network.
    """
    deadline = time.monotonic() + seconds
    handlers: list[Any] = [NoRedirects()]
    if not proxies:
        handlers.append(urllib.request.ProxyHandler({}))
    if urlsplit(url).scheme == "https":
        handlers.append(urllib.request.HTTPSHandler(context=_tls_context()))
    request = urllib.request.Request(url, body, dict(headers), method=method)  # noqa: S310  (http and https only)
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=seconds) as response:
            return HttpResponse(response.status, _read(response, deadline))
    except urllib.error.HTTPError as error:
        with error:
            try:
                return HttpResponse(error.code, _read(error, deadline))
            except (OSError, http.client.HTTPException):
                return HttpResponse(error.code, b"")
    except (OSError, http.client.HTTPException) as error:
        raise AuthenticationError(
            f"AWS_MSK_IAM: {redacted_url(url)} is unreachable: {cause_of(error)}",
            "check the network and HTTP proxies",
            retriable=True,
        ) from None


def _tls_context() -> ssl.SSLContext:
    bundle = os.environ.get("AWS_CA_BUNDLE") or None
    try:
        return ssl.create_default_context(cafile=bundle)
    except OSError as error:
        raise ConfigError(
            f"AWS_CA_BUNDLE = {bundle}: {error.strerror or 'not a file of certificates'}", "set it to a PEM file"
        ) from None


def _read(response: Any, deadline: float) -> bytes:
    what = "AWS_MSK_IAM: response with credentials"
    return read_body(response, deadline, what, "check the credential source")
