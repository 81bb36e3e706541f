"""Finds AWS credentials in the sources of AWS's own clients, in the same order.

First those named in `sasl.jaas.config` (a profile, a role), then the default chain: environment, web identity token,
profile, container, instance. A source that is not configured is skipped; one that is configured and fails is an error,
because the next source would be another identity.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security import aws_http, aws_profiles, aws_sts
from twinlog.security.aws_sts import Credentials, Role
from twinlog.security.limited_http import MAX_BYTES
from twinlog.text import one_line, redacted_url

_CONTAINER: Final = "http://169.254.170.2"
_INSTANCE: Final = "http://169.254.169.254"
# Hosts that may serve a container's credentials without https: the agents of ECS and EKS, and this machine.
_AGENT_HOSTS: Final = ("169.254.170.2", "169.254.170.23", "fd00:ec2::23", "localhost", "127.0.0.1", "::1")
_ROLES: Final = "/latest/meta-data/iam/security-credentials/"
_METADATA_TIMEOUT: Final = 2.0  # seconds; short, because most machines have no instance metadata service


@dataclass(frozen=True, slots=True)
class CredentialSettings:
    """The options of `sasl.jaas.config`. Equal settings share their credentials."""

    profile: str = ""
    role: Role | None = None
    base: Credentials | None = field(default=None, repr=False)  # used to assume the role
    defaults: bool = True

    def fetch(self) -> Credentials:
        """AuthenticationError if there are none, ConfigError if the settings cannot yield any."""
        for find in (self._profile, self._role, self._default):
            if (found := find(os.environ)) is not None:
                return found
        profile = f"profile {self.profile!r} has none and " if self.profile else ""
        raise AuthenticationError(
            f"AWS_MSK_IAM: no AWS credentials: {profile}no other source is configured",
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile with awsProfileName, or give the "
            "container or instance a role",
        )

    def _profile(self, env: Mapping[str, str]) -> Credentials | None:
        return of_profile(self.profile, env) if self.profile else None

    def _role(self, env: Mapping[str, str]) -> Credentials | None:
        if self.role is None:
            return None
        base = self.base or default(env)
        if base is None:
            raise AuthenticationError(
                f"AWS_MSK_IAM: no AWS credentials to assume role {one_line(self.role.arn)}",
                "set awsRoleAccessKeyId and awsRoleSecretAccessKey, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            )
        return aws_sts.assume(self.role, base)

    def _default(self, env: Mapping[str, str]) -> Credentials | None:
        return default(env) if self.defaults else None


def default(env: Mapping[str, str]) -> Credentials | None:
    sources: tuple[Callable[[Mapping[str, str]], Credentials | None], ...] = (
        environment,
        web_identity,
        lambda env: of_profile(env.get("AWS_PROFILE") or "default", env),
        container,
        instance,
    )
    return next((found for source in sources if (found := source(env)) is not None), None)


def environment(env: Mapping[str, str]) -> Credentials | None:
    key_id, secret = env.get("AWS_ACCESS_KEY_ID", "").strip(), env.get("AWS_SECRET_ACCESS_KEY", "").strip()
    if not key_id or not secret:
        return None
    return Credentials(key_id, secret, env.get("AWS_SESSION_TOKEN", "").strip(), origin="the environment")


def web_identity(env: Mapping[str, str]) -> Credentials | None:
    file, arn = env.get("AWS_WEB_IDENTITY_TOKEN_FILE"), env.get("AWS_ROLE_ARN")
    if not file or not arn:
        return None
    role = Role(arn, env.get("AWS_ROLE_SESSION_NAME") or "twinlog", region=aws_profiles.region(env))
    return aws_sts.with_web_identity(role, Path(file))


def of_profile(name: str, env: Mapping[str, str], seen: tuple[str, ...] = ()) -> Credentials | None:
    """The credentials of a profile; None if the profile does not exist or has none."""
    profile = aws_profiles.profiles(env).get(name)
    if profile is None:
        return None
    if not (arn := profile.get("role_arn")):
        return aws_profiles.keys(name, profile)
    role = Role(
        arn,
        profile.get("role_session_name") or "twinlog",
        profile.get("external_id", ""),
        profile.get("region") or aws_profiles.region(env),
    )
    if file := profile.get("web_identity_token_file"):
        return aws_sts.with_web_identity(role, Path(file))
    source = profile.get("source_profile", "")
    base: Credentials | None = None
    if source == name:
        base = aws_profiles.keys(name, profile)
    elif source and source not in seen:
        base = of_profile(source, env, (*seen, name))
    elif not source and (find := _CREDENTIAL_SOURCES.get(profile.get("credential_source", ""))):
        base = find(env)
    if base is None:
        raise ConfigError(
            f"AWS profile {name!r}: no credentials to assume its role_arn", "check source_profile or credential_source"
        )
    return aws_sts.assume(role, base)


def container(env: Mapping[str, str]) -> Credentials | None:
    """Credentials from the agent of ECS or EKS."""
    if relative := env.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        url = _CONTAINER + (relative if relative.startswith("/") else f"/{relative}")
    elif url := env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", ""):
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _AGENT_HOSTS):
            raise ConfigError(
                "AWS_CONTAINER_CREDENTIALS_FULL_URI: http is only allowed for localhost and the agents of ECS and EKS",
                "use https",
            )
    else:
        return None
    headers = {"Accept": "application/json"}
    if token := _container_token(env):
        headers["Authorization"] = token
    return _decode(url, aws_http.send(url, headers), "the container's role")


def _container_token(env: Mapping[str, str]) -> str:
    token = env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    if file := env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        try:
            with Path(file).open("rb") as opened:
                token = opened.read(MAX_BYTES).decode(errors="replace")
        except OSError as error:
            raise AuthenticationError(
                f"AWS_MSK_IAM: container token {file}: {error.strerror}",
                "check AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                retriable=True,
            ) from None
    token = token.strip()
    if any(char < " " or char > "~" for char in token):
        raise ConfigError("AWS_CONTAINER_AUTHORIZATION_TOKEN: not valid in an HTTP header", "use printable ASCII only")
    return token


def instance(env: Mapping[str, str]) -> Credentials | None:
    """Credentials from the EC2 instance metadata service, version 2. None if it is not available or has no role."""
    if env.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return None
    base = (env.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _INSTANCE).rstrip("/")
    if urlsplit(base).scheme not in ("http", "https"):
        raise ConfigError("AWS_EC2_METADATA_SERVICE_ENDPOINT: not a URL", "begin with http:// or https://")
    try:
        lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
        session = aws_http.send(f"{base}/latest/api/token", lifetime, method="PUT", seconds=_METADATA_TIMEOUT)
        token = session.content.decode(errors="replace").strip()
        if session.status != 200 or not token.isascii() or not token.isprintable():
            return None
        headers = {"X-aws-ec2-metadata-token": token}
        roles = aws_http.send(base + _ROLES, headers, seconds=_METADATA_TIMEOUT)
    except AuthenticationError:
        return None
    role = roles.content.decode(errors="replace").strip().partition("\n")[0]
    if roles.status != 200 or not role:
        return None
    url = base + _ROLES + quote(role, safe="")
    return _decode(url, aws_http.send(url, headers), "the instance's role")


_CREDENTIAL_SOURCES: Final[Mapping[str, Callable[[Mapping[str, str]], Credentials | None]]] = {
    "Environment": environment,
    "EcsContainer": container,
    "Ec2InstanceMetadata": instance,
}


def _decode(url: str, response: aws_http.HttpResponse, origin: str) -> Credentials:
    """The JSON of agents and the metadata service. Errors never quote it: it contains the secret."""
    where = redacted_url(url)
    if response.status != 200:
        retriable = response.status >= 500 or response.status == 429
        raise AuthenticationError(
            f"AWS_MSK_IAM: no credentials from {where}: HTTP {response.status}", f"check {origin}", retriable=retriable
        )
    try:
        found: Any = json.loads(response.content)
    except (ValueError, RecursionError):
        found = None
    names = ("AccessKeyId", "SecretAccessKey")
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) and found[name] for name in names):
        raise AuthenticationError(
            f"AWS_MSK_IAM: no credentials from {where}: malformed response", f"check {origin}", retriable=True
        )
    token = found.get("Token")
    return Credentials(
        found["AccessKeyId"],
        found["SecretAccessKey"],
        token if isinstance(token, str) else "",
        expires=aws_sts.expiration(found.get("Expiration")),
        origin=origin,
    )
