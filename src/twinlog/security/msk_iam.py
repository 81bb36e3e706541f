"""SASL AWS_MSK_IAM, the authentication of Amazon MSK: a signed request for `kafka-cluster:Connect`, as JSON.

The secret key is never sent; the signature is valid for one broker, for 15 minutes.
"""

import json
import re
import time
from dataclasses import dataclass
from functools import lru_cache
from os import environ
from typing import Final

from twinlog import __version__
from twinlog.config.flows import Client
from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security import aws_profiles, sigv4
from twinlog.security.aws_credentials import CredentialSettings
from twinlog.security.aws_sts import Credentials, Role
from twinlog.security.jaas import KEY, LoginModule
from twinlog.security.oauth_tokens import Refresh, TokenCache, refresh
from twinlog.security.sigv4 import Request, Scope
from twinlog.text import one_line

MECHANISM: Final = "AWS_MSK_IAM"
_HANDLER: Final = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
_VERSION: Final = "2020_10_22"
_ACTION: Final = "kafka-cluster:Connect"
_SECONDS: Final = "900"
_MAX_BYTES: Final = 1 << 16
# MSK's broker names contain the region: b-1.demo.a1b2c3.c2.kafka.us-east-1.amazonaws.com
_REGION: Final = re.compile(
    r"(?<![a-z0-9])[a-z]{2,4}(?:-[a-z]{2,5})?-(?:(?:north|south)(?:east|west)?|east|west|central)-[0-9]{1,2}(?![a-z0-9])"
)


@dataclass(frozen=True, slots=True, repr=False)
class MskIam:
    """One login."""

    host: str
    region: str
    credentials: Credentials
    cache: TokenCache[Credentials] | None = None
    fresh: bool = True

    @property
    def mechanism(self) -> str:
        return MECHANISM

    def first(self) -> bytes:
        return payload(self.host, self.region, self.credentials, time.time())

    def next(self, challenge: bytes) -> None:
        """On success the broker responds with its version and a request id."""
        try:
            found = json.loads(challenge) if 0 < len(challenge) <= _MAX_BYTES else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.get("version") != _VERSION:
            raise AuthenticationError(
                f"{MECHANISM}: malformed response from the broker",
                "check that it is an Amazon MSK broker",
                retriable=True,
            )

    def refused(self, reason: str) -> AuthenticationError:
        if self.cache is not None:
            self.cache.drop(self.credentials)
        hidden = (self.credentials.secret, self.credentials.token)
        what = f"{MECHANISM}: credentials from {self.credentials.origin} rejected: {one_line(reason, hidden)}"
        if self.credentials.is_expired(time.time()):
            return AuthenticationError(f"{what} (expired)", "retrying with new credentials", retriable=True)
        if not self.fresh:
            return AuthenticationError(what, "retrying with new credentials", retriable=True)
        return AuthenticationError(
            what, f"check that their policy allows {_ACTION} on this cluster, and the clock of this machine"
        )


def msk_iam(config: Client, module: LoginModule, host: str) -> MskIam:
    """May contact STS, a container's agent or the instance metadata service."""
    region = region_of(host)
    cache = _cache(credential_settings(module), refresh(config))
    credentials, fresh = cache.token()
    return MskIam(host, region, credentials, cache, fresh)


def is_handler(name: str) -> bool:
    """Whether this is AWS's callback handler, also of a shaded jar. Every MSK configuration names it."""
    return f".{name}".endswith(f".{_HANDLER}")


def payload(host: str, region: str, credentials: Credentials, now: float) -> bytes:
    """The token for the broker."""
    scope = Scope(now, region, "kafka-cluster")
    query = {
        "Action": _ACTION,
        "X-Amz-Algorithm": sigv4.ALGORITHM,
        "X-Amz-Credential": f"{credentials.key_id}/{scope.text}",
        "X-Amz-Date": scope.timestamp,
        "X-Amz-Expires": _SECONDS,
        **({"X-Amz-Security-Token": credentials.token} if credentials.token else {}),
        "X-Amz-SignedHeaders": "host",
    }
    signature = sigv4.signature(credentials.secret, scope, Request("GET", "/", query, {"host": host}))
    content = {
        "version": _VERSION,
        "host": host,
        "user-agent": f"twinlog/{__version__}",
        **{name.lower(): value for name, value in query.items()},
        "x-amz-signature": signature,
    }
    return json.dumps(content, separators=(",", ":")).encode()


def region_of(host: str) -> str:
    """The region in the broker's name, as MSK assigns it; for custom names that of the environment or the profile."""
    if named := _REGION.findall(host.lower()):
        return str(named[-1])
    if found := aws_profiles.region(environ):
        return found
    raise ConfigError(f"{MECHANISM}: no AWS region in the name of broker {one_line(host)}", "set AWS_REGION")


def credential_settings(module: LoginModule) -> CredentialSettings:
    """The options of AWS's login module. `awsDebugCreds`, `awsMaxRetries` and `awsMaxBackOffTimeMs` have no effect:
    logins are always retried.
    """
    options = module.options
    if provider := options.get("awsMskRegionProvider"):
        raise ConfigError(
            f"{KEY}: awsMskRegionProvider = {one_line(provider)}: Java classes cannot be run", "set AWS_REGION instead"
        )
    key_id, secret = options.get("awsRoleAccessKeyId"), options.get("awsRoleSecretAccessKey")
    base = Credentials(key_id, secret, options.get("awsRoleSessionToken", "")) if key_id and secret else None
    role = None
    if arn := options.get("awsRoleArn"):
        role = Role(
            arn,
            options.get("awsRoleSessionName") or "aws-msk-iam-auth",
            options.get("awsRoleExternalId", ""),
            options.get("awsStsRegion", ""),
            fips=options.get("awsShouldUseFips") == "true",
        )
    defaults = options.get("awsAddDefaultProviders", "true") == "true"
    return CredentialSettings(options.get("awsProfileName", ""), role, base, defaults)


@lru_cache(maxsize=256)
def _cache(source: CredentialSettings, rules: Refresh) -> TokenCache[Credentials]:
    """Shared by all connections of all clients with the same settings."""
    return TokenCache(source, rules)
