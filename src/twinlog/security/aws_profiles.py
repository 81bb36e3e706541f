"""Named profiles of AWS's shared files, `~/.aws/credentials` and `~/.aws/config`, read at every use."""

import configparser
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from twinlog.errors import ConfigError
from twinlog.security.aws_sts import Credentials

_MAX_BYTES: Final = 1 << 20
_UNSUPPORTED: Final = ("credential_process", "sso_session", "sso_start_url")


def profiles(env: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """By name. The credentials file overrides the config file."""
    config = _sections(_file(env, "AWS_CONFIG_FILE", "config"))
    found: dict[str, dict[str, str]] = {}
    for section, values in config.items():
        name = section.removeprefix("profile ").strip()
        if name == "default" or section.startswith("profile "):
            found[name] = dict(values)
    for name, values in _sections(_file(env, "AWS_SHARED_CREDENTIALS_FILE", "credentials")).items():
        found[name] = {**found.get(name, {}), **values}
    return found


def keys(name: str, profile: Mapping[str, str]) -> Credentials | None:
    key_id, secret = profile.get("aws_access_key_id", ""), profile.get("aws_secret_access_key", "")
    if key_id and secret:
        return Credentials(key_id, secret, profile.get("aws_session_token", ""), origin=f"profile {name!r}")
    if found := next((key for key in _UNSUPPORTED if key in profile), None):
        raise ConfigError(
            f"AWS profile {name!r}: {found} is not supported", "use access keys, role_arn or web_identity_token_file"
        )
    return None


def region(env: Mapping[str, str]) -> str:
    """The region, by the rules of AWS's clients; empty if not set."""
    if written := env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION"):
        return written.strip()
    return profiles(env).get(env.get("AWS_PROFILE") or "default", {}).get("region", "")


def _file(env: Mapping[str, str], variable: str, name: str) -> Path:
    written = env.get(variable)
    return Path(written).expanduser() if written else Path(env.get("HOME") or "~").expanduser() / ".aws" / name


def _sections(file: Path) -> dict[str, dict[str, str]]:
    """Empty if the file does not exist. Errors never quote the file: a line may contain a secret."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, RuntimeError) as error:
        cause = getattr(error, "strerror", None) or "no home directory"
        raise ConfigError(f"{file}: not readable: {cause}", "check the path and its permissions") from None
    parser = configparser.RawConfigParser(
        strict=False, delimiters=("=",), comment_prefixes=("#", ";"), default_section="", allow_no_value=True
    )
    try:
        parser.read_string(content.decode("utf-8-sig", errors="replace"))
    except configparser.Error:
        raise ConfigError(f"{file}: not an AWS profile file", "write [name] and lines of key = value") from None
    return {
        section: {key: value.strip() for key, value in parser.items(section) if value is not None}
        for section in parser.sections()
    }
