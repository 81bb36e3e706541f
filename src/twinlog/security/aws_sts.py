"""Temporary credentials of a role from AWS STS, by other credentials or by a web identity token."""

import hashlib
import html
import os
import re
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security import aws_http, sigv4
from twinlog.security.limited_http import MAX_BYTES
from twinlog.security.sigv4 import Request, Scope
from twinlog.text import one_line, redacted_url

_VERSION: Final = "2011-06-15"
_REGION: Final = re.compile(r"[a-z0-9-]{1,32}")
_FORM: Final = "application/x-www-form-urlencoded; charset=utf-8"
_RETRIABLE: Final = ("Throttling", "RequestLimitExceeded", "ServiceUnavailable", "InternalFailure", "IDPCommunication")


@dataclass(frozen=True, slots=True)
class Credentials:
    key_id: str = field(repr=False)
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)
    expires: float | None = None
    origin: str = ""  # where they come from, for messages
    issued: float | None = None

    def is_expired(self, now: float) -> bool:
        return self.expires is not None and now >= self.expires


@dataclass(frozen=True, slots=True)
class Role:
    """`region`: of the STS endpoint; empty for the global one."""

    arn: str
    session: str = "aws-msk-iam-auth"
    external_id: str = field(default="", repr=False)
    region: str = ""
    fips: bool = False


def assume(role: Role, base: Credentials) -> Credentials:
    """The role's credentials, requested with `base`."""
    url, region = endpoint(role)
    form = {
        "Action": "AssumeRole",
        "Version": _VERSION,
        "RoleArn": role.arn,
        "RoleSessionName": role.session,
        **({"ExternalId": role.external_id} if role.external_id else {}),
    }
    body = urlencode(form).encode()
    scope = Scope(time.time(), region, "sts")
    headers = {"content-type": _FORM, "host": urlsplit(url).netloc, "x-amz-date": scope.timestamp}
    if base.token:
        headers["x-amz-security-token"] = base.token
    request = Request("POST", "/", {}, headers, hashlib.sha256(body).hexdigest())
    signed = {**headers, "authorization": sigv4.authorization(base.key_id, base.secret, scope, request)}
    return _credentials(url, body, signed, role, (base.secret, base.token))


def with_web_identity(role: Role, file: Path) -> Credentials:
    """The role's credentials, requested with the token in a file (of a Kubernetes service account, for example)."""
    try:
        with file.open("rb") as opened:
            token = opened.read(MAX_BYTES).decode(errors="replace").strip()
    except OSError as error:
        raise AuthenticationError(
            f"AWS_MSK_IAM: web identity token {file}: {error.strerror}",
            "check AWS_WEB_IDENTITY_TOKEN_FILE",
            retriable=True,
        ) from None
    if not token:
        raise AuthenticationError(
            f"AWS_MSK_IAM: web identity token {file}: empty file", "check AWS_WEB_IDENTITY_TOKEN_FILE", retriable=True
        )
    url, _ = endpoint(role)
    form = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": _VERSION,
        "RoleArn": role.arn,
        "RoleSessionName": role.session,
        "WebIdentityToken": token,
    }
    return _credentials(url, urlencode(form).encode(), {"content-type": _FORM}, role, (token,))


def endpoint(role: Role) -> tuple[str, str]:
    """The URL, and the region that a request is signed for."""
    region = role.region
    if region and not _REGION.fullmatch(region):
        raise ConfigError("awsStsRegion: not an AWS region", "use a name such as us-east-1")
    if written := os.environ.get("AWS_ENDPOINT_URL_STS") or os.environ.get("AWS_ENDPOINT_URL"):
        parts = urlsplit(written)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("AWS_ENDPOINT_URL_STS or AWS_ENDPOINT_URL: not a URL", "begin with https:// or http://")
        return f"{parts.scheme}://{parts.netloc}/", region or "us-east-1"
    if role.fips:
        return f"https://sts-fips.{region or 'us-east-1'}.{_domain(region)}/", region or "us-east-1"
    if not region or region == "aws-global":
        return "https://sts.amazonaws.com/", "us-east-1"
    return f"https://sts.{region}.{_domain(region)}/", region


def _domain(region: str) -> str:
    if region.startswith("eusc-"):
        return "amazonaws.eu"
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


def _credentials(url: str, body: bytes, headers: dict[str, str], role: Role, hidden: tuple[str, ...]) -> Credentials:
    response = aws_http.send(url, headers, body=body, seconds=10.0, proxies=True)
    text = response.content.decode(errors="replace")
    if response.status != 200:
        code = _member(text, "Code")
        reason = one_line(": ".join(filter(None, (code, _member(text, "Message")))), hidden) or "no reason given"
        retriable = response.status >= 500 or response.status == 429 or code.startswith(_RETRIABLE)
        action = "retrying" if retriable else "check the role's trust policy and the credentials used to assume it"
        raise AuthenticationError(
            f"AWS_MSK_IAM: role {one_line(role.arn)} cannot be assumed at {redacted_url(url)}: "
            f"HTTP {response.status}, {reason}",
            action,
            retriable=retriable,
        )
    found = {name: _member(text, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")}
    if not all(found.values()):
        raise AuthenticationError(
            f"AWS_MSK_IAM: no credentials from {redacted_url(url)}: malformed response",
            "check that it is AWS STS",
            retriable=True,
        )
    return Credentials(
        found["AccessKeyId"],
        found["SecretAccessKey"],
        found["SessionToken"],
        expires=expiration(found["Expiration"]),
        origin=f"role {one_line(role.arn)}",
    )


def _member(xml: str, name: str) -> str:
    """The text of an XML element. STS's responses are flat and small: no XML parser (with its entities) is needed."""
    match = re.search(rf"<{name}>([^<]*)</{name}>", xml)
    return html.unescape(match[1]).strip() if match else ""


def expiration(text: object) -> float | None:
    """`2030-01-31T12:00:00Z` as seconds since 1970; None if malformed."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except (ValueError, OverflowError):
        return None
