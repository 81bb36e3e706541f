"""Settings of a Connect worker file that protect its API: each is enforced or rejected, never ignored.

| setting                  | here                                                                                     |
|--------------------------|------------------------------------------------------------------------------------------|
| `rest.extension.classes` | Kafka's BasicAuthSecurityRestExtension: its users are required to log in. Other classes  |
|                          | are Java and cannot run: an error, unless Twinlog's own options require a login          |
| `admin.listeners`        | empty: `/admin` is not served, as in Connect. A separate address: an error               |
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twinlog.config.values import Value
from twinlog.errors import ConfigError
from twinlog.security import jaas

BASIC_AUTH: Final = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
_LOGIN_MODULE: Final = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
_JAAS_ENTRY: Final = "KafkaConnect"
_JAAS_FILE: Final = "-Djava.security.auth.login.config="
_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/|[{};=]|[^\s{};="]+', re.DOTALL)
_OPTIONS: Final = ("KAFKA_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")  # may contain the JAAS file


@dataclass(frozen=True, slots=True)
class Protection:
    """`users`: the user file of BasicAuthSecurityRestExtension. `admin`: whether `/admin` is served."""

    users: Path | None = None
    admin: bool = True


def protection(values: Mapping[str, Value], environment: Mapping[str, str], *, login: bool) -> Protection:
    """Raises ConfigError for settings that cannot be enforced. `login`: Twinlog's own options require a login."""
    return Protection(_users(values, environment, login=login), admin=_admin(values))


def _users(values: Mapping[str, Value], environment: Mapping[str, str], *, login: bool) -> Path | None:
    classes = [each for each in _list(values, "rest.extension.classes") if each]
    if login or not classes:  # Twinlog's own options replace the extension
        return None
    short = BASIC_AUTH.rpartition(".")[2]
    if others := [each for each in classes if each not in (BASIC_AUTH, short, short.removesuffix("RestExtension"))]:
        raise ConfigError(
            f"rest.extension.classes = {others[0]}: Java classes cannot run here, and without it the REST API may be "
            "unauthenticated; set --auth-file or --tls-client-ca, or remove the class"
        )
    file = jaas_file(environment)
    if file is None:
        raise ConfigError(
            f"rest.extension.classes = {short}: JAAS file unknown; set KAFKA_OPTS={_JAAS_FILE}FILE as for Connect, "
            "or use --auth-file"
        )
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {getattr(error, 'strerror', None) or 'not a text file'}") from error
    return users_file(text, str(file))


def jaas_file(environment: Mapping[str, str]) -> Path | None:
    """The JAAS file of Connect's JVM; of several options, Java uses the last."""
    for variable in _OPTIONS:
        try:
            options = shlex.split(environment.get(variable, ""))
        except ValueError:
            raise ConfigError(f"{variable}: unclosed quote") from None
        if found := [each.removeprefix(_JAAS_FILE) for each in options if each.startswith(_JAAS_FILE)]:
            return Path(found[-1].removeprefix("="))  # `==` replaces the JDK's own file, which has no such entry
    return None


def users_file(text: str, where: str) -> Path:
    """The user file in a JAAS file: `KafkaConnect { ...PropertyFileLoginModule required file="..."; };`."""
    body = _entry(text)
    if body is None:
        raise ConfigError(f"{where}: no entry {_JAAS_ENTRY} for BasicAuthSecurityRestExtension; add one")
    try:
        modules = jaas.parse(body)
    except ConfigError:  # its message names another setting
        raise ConfigError(f"{where}: {_JAAS_ENTRY}: not a login module with options and a semicolon") from None
    if len(modules) != 1 or modules[0].name != _LOGIN_MODULE:
        raise ConfigError(
            f"{where}: {_JAAS_ENTRY}: only a single PropertyFileLoginModule is supported; use --auth-file instead"
        )
    file = modules[0].options.get("file", "").strip()
    if not file:
        raise ConfigError(f'{where}: {_JAAS_ENTRY}: PropertyFileLoginModule has no file; add file="..."')
    return Path(file)


def _entry(text: str) -> str | None:
    """The text in the braces after the entry's name; braces in quotes and comments do not count."""
    found: list[str] = []
    before = ""
    inside = False
    for word in (match[0] for match in _TOKEN.finditer(text)):
        if word.startswith(("//", "/*")):
            continue
        if inside and word == "}":
            return " ".join(found)
        if inside:
            found.append(word)
        inside = inside or (word == "{" and before.strip('"') == _JAAS_ENTRY)
        before = word
    return None


def _admin(values: Mapping[str, Value]) -> bool:
    if "admin.listeners" not in values:
        return True
    named = [each for each in _list(values, "admin.listeners") if each]
    if not named:
        return False
    if sorted(named) == sorted(_list(values, "listeners")):
        return True
    raise ConfigError(
        f"admin.listeners = {', '.join(named)}: a separate address for /admin is not supported; leave the value empty "
        "to disable /admin, or remove the key to serve it on the REST port"
    )


def _list(values: Mapping[str, Value], key: str) -> list[str]:
    return [each.strip() for each in values[key].text.split(",")] if key in values else []
