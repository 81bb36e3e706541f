"""Kafka's config providers: `${file:/path:key}`, `${dir:/path:name}`, `${env:NAME}`, resolved as in Kafka."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from twinlog.config.java_regex import JavaRegexError, compile_java
from twinlog.config.problems import Problems, did_you_mean
from twinlog.config.properties import read_properties
from twinlog.config.value_types import Expected, java_trim, split_list
from twinlog.config.values import Value, is_secret, only_references

_REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_PACKAGE = "org.apache.kafka.common.config.provider."


class Provider(Protocol):
    def get(self, path: str, key: str) -> str | None:
        """The value; None or LookupError if Kafka finds nothing and leaves the reference unresolved.

        ValueError if Kafka fails. Both errors have a message.
        """


@dataclass(frozen=True, slots=True)
class Allowed:
    """Kafka's `allowed.paths`; all paths are allowed if it is not set."""

    paths: tuple[Path, ...] | None = None

    def check(self, path: Path) -> None:
        if self.paths is not None and not any(path.is_relative_to(allowed) for allowed in self.paths):
            raise LookupError(f"{path} is not in allowed.paths")


@dataclass(frozen=True, slots=True)
class FileProvider:
    """The keys of a .properties file, read as UTF-8."""

    allowed: Allowed = Allowed()

    def get(self, path: str, key: str) -> str | None:
        file = Path(os.path.normpath(path))
        self.allowed.check(file)
        if not path:
            raise LookupError("no file in the reference; write ${name:/path/to/file:key}")
        if not file.is_file():
            raise ValueError(f"file {path} not found; check the path")
        try:
            text = file.read_text("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"file {path} is not UTF-8; convert it") from None
        value = read_properties(text, file.name, Problems()).get(key)
        return value.text if value else None


@dataclass(frozen=True, slots=True)
class DirectoryProvider:
    """The files of a folder, as Kubernetes mounts secrets: the name is the key, the content the value."""

    allowed: Allowed = Allowed()

    def get(self, path: str, key: str) -> str | None:
        folder = Path(os.path.normpath(path))
        self.allowed.check(folder)
        if not path or not folder.is_dir():
            raise LookupError(f"directory {path} not found")
        file = folder / key
        return file.read_text("utf-8", "replace") if file.parent == folder and file.is_file() else None


@dataclass(frozen=True, slots=True)
class EnvironmentProvider:
    """Environment variables: all, or those that match `allowlist.pattern`."""

    allowed: re.Pattern[str] | None = None

    def get(self, path: str, key: str) -> str | None:
        if path:
            raise ValueError("an environment variable has no path; write ${name:VARIABLE}")
        if self.allowed is not None and not self.allowed.fullmatch(key):
            raise LookupError(f"{key} does not match allowlist.pattern")
        return os.environ.get(key)


@dataclass(slots=True)
class Providers:
    """The providers that a configuration declares, by name. Files are read at each lookup."""

    by_name: Mapping[str, Provider] = field(default_factory=dict)

    def resolve(self, value: Value, problems: Problems) -> Value:
        """The value with all references replaced, once; as in Kafka, unresolved ones stay as they are."""
        if value.reference or "${" not in value.text:
            return value
        # A literal secret may contain `${` by chance: no part of it may be quoted.
        quotable = not is_secret(value.key, value.text) or only_references(value.text)
        written = value.origin.key or value.key

        def replacement(match: re.Match[str]) -> str:
            name, path, key = match[1], match[2] or "", match[3]
            quoted = match[0] if quotable else "${...}"
            try:
                return self._get(name, path, key)
            except (ValueError, OSError) as error:
                problems.error(value.origin, f"{written}: {quoted}: {error}")
            except LookupError as error:
                problems.warn(value.origin, f"{written}: {quoted} is not resolved: {error}")
            return match[0]

        text = _REFERENCE.sub(replacement, value.text)
        return value if text == value.text else replace(value, text=text, reference=value.text)

    def _get(self, name: str, path: str, key: str) -> str:
        if (provider := self.by_name.get(name)) is None:
            known = f"declared: {', '.join(self.by_name)}" if self.by_name else "config.providers is not set"
            # Without the name: it may be part of a password that contains `${`. Where it may be shown, the caller does.
            raise LookupError(f"unknown config provider ({known})")
        if (found := provider.get(path, key)) is None:
            raise LookupError("no such key")
        return found

    def resolve_all(self, values: Mapping[str, Value], problems: Problems) -> dict[str, Value]:
        return {key: self.resolve(value, problems) for key, value in values.items()}


def declared_providers(
    values: Mapping[str, Value], problems: Problems, more: Mapping[str, Provider] | None = None
) -> Providers:
    """From `config.providers`, `config.providers.<name>.class` and `.param.*`. `more`: further classes."""
    names = split_list(values["config.providers"].text) if "config.providers" in values else ()
    found: dict[str, Provider] = {}
    for name in filter(None, names):
        prefix = f"config.providers.{name}."
        class_value = values.get(prefix + "class")
        if class_value is None:
            near = did_you_mean(prefix + "class", values)
            problems.warn(
                values["config.providers"].origin, f"config.providers: {prefix}class is missing{near}; set it"
            )
            continue
        parameters = {
            key.removeprefix(prefix + "param."): value.text
            for key, value in values.items()
            if key.startswith(prefix + "param.")
        }
        named = java_trim(class_value.text)
        if more and named in more:
            found[name] = more[named]
        elif named == _PACKAGE + "FileConfigProvider":
            found[name] = FileProvider(_allowed_paths(parameters))
        elif named == _PACKAGE + "DirectoryConfigProvider":
            found[name] = DirectoryProvider(_allowed_paths(parameters))
        elif named == _PACKAGE + "EnvVarConfigProvider":
            found[name] = EnvironmentProvider(_pattern(parameters.get("allowlist.pattern"), class_value, problems))
        else:
            problems.value(
                class_value,
                Expected(
                    "expected one of FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider of "
                    f"{_PACKAGE}*; other Java classes cannot be run"
                ),
            )
    return Providers(found)


def _allowed_paths(parameters: Mapping[str, str]) -> Allowed:
    text = parameters.get("allowed.paths", "").strip()
    return Allowed(tuple(Path(os.path.normpath(path)) for path in text.split(",") if path) if text else None)


def _pattern(pattern: str | None, value: Value, problems: Problems) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        return compile_java(pattern)
    except JavaRegexError as error:
        problems.error(value.origin, f"allowlist.pattern = {pattern!r}: {error}")
        return None
