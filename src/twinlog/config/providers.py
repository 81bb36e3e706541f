"""Kafka's config providers: `${file:/path:key}`, `${dir:/path:name}`, `${env:NAME}`, resolved as Kafka does it."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from twinlog.config.javaregex import JavaRegexError, compile_java
from twinlog.config.kinds import java_trim, split_list
from twinlog.config.problems import Problems, did_you_mean
from twinlog.config.properties import read_properties
from twinlog.config.values import Value

_REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_PACKAGE = "org.apache.kafka.common.config.provider."


class Provider(Protocol):
    def get(self, path: str, key: str) -> str | None:
        """The value; None where there is none (the reference then stays as text); ValueError with a sentence."""


@dataclass(frozen=True, slots=True)
class _Allowed:
    """Kafka's `allowed.paths`: absent means anywhere."""

    paths: tuple[Path, ...] | None

    def check(self, path: Path) -> None:
        if self.paths is not None and not any(path.is_relative_to(allowed) for allowed in self.paths):
            raise ValueError(f"{path} is not under allowed.paths")


@dataclass(frozen=True, slots=True)
class FileProvider:
    """The keys of a .properties file."""

    allowed: _Allowed

    def get(self, path: str, key: str) -> str | None:
        file = Path(os.path.normpath(path))
        self.allowed.check(file)
        if not file.is_file():
            raise ValueError(f"no such file: {path}")
        value = read_properties(file.read_bytes(), file.name, Problems()).get(key)
        return value.text if value else None


@dataclass(frozen=True, slots=True)
class DirectoryProvider:
    """The files of a folder, as Kubernetes mounts secrets: the name is the key, the content the value."""

    allowed: _Allowed

    def get(self, path: str, key: str) -> str | None:
        folder = Path(os.path.normpath(path))
        self.allowed.check(folder)
        if not folder.is_dir():
            raise ValueError(f"no such folder: {path}")
        file = folder / key
        return file.read_text() if file.parent == folder and file.is_file() else None


@dataclass(frozen=True, slots=True)
class EnvironmentProvider:
    """Environment variables, all or those whose names match `allowlist.pattern`."""

    allowed: re.Pattern[str] | None

    def get(self, path: str, key: str) -> str | None:
        if path:
            raise ValueError("an environment variable has no path: write ${name:VARIABLE}")
        if self.allowed is not None and not self.allowed.fullmatch(key):
            raise ValueError(f"{key} does not match allowlist.pattern")
        return os.environ.get(key)


@dataclass(slots=True)
class Providers:
    """Those that a configuration declares, by name. Files are read once per look-up: configuration is read once."""

    by_name: Mapping[str, Provider] = field(default_factory=dict)

    def resolve(self, value: Value, problems: Problems) -> Value:
        """The value with every reference replaced; one that cannot be resolved stays as text, as in Kafka."""
        if "${" not in value.text:
            return value

        def replacement(match: re.Match[str]) -> str:
            name, path, key = match[1], match[2] or "", match[3]
            if (provider := self.by_name.get(name)) is None:
                known = f"declared: {', '.join(self.by_name)}" if self.by_name else "config.providers is not set"
                problems.warn(
                    value.origin,
                    f"{value.origin.key}: no config provider {name!r} for {match[0]} ({known}); it stays as text",
                )
                return match[0]
            try:
                found = provider.get(path, key)
            except (ValueError, OSError) as error:
                problems.error(value.origin, f"{value.origin.key}: {match[0]}: {error}")
                return match[0]
            if found is None:
                problems.warn(
                    value.origin, f"{value.origin.key}: {match[0]} names nothing that is there; it stays as text"
                )
            return match[0] if found is None else found

        text = _REFERENCE.sub(replacement, value.text)
        return value if text == value.text else replace(value, text=text, reference=value.text)

    def resolve_all(self, values: Mapping[str, Value], problems: Problems) -> dict[str, Value]:
        return {key: self.resolve(value, problems) for key, value in values.items()}


def declared_providers(values: Mapping[str, Value], problems: Problems) -> Providers:
    """From `config.providers`, `config.providers.<name>.class` and `.param.*`."""
    names = split_list(values["config.providers"].text) if "config.providers" in values else ()
    made: dict[str, Provider] = {}
    for name in names:
        prefix = f"config.providers.{name}."
        class_value = values.get(prefix + "class")
        if class_value is None:
            where = values["config.providers"].origin
            near = did_you_mean(prefix + "class", values)
            problems.error(where, f"config.providers = {name!r}: {prefix}class is missing{near}")
            continue
        parameters = {
            k.removeprefix(prefix + "param."): v.text for k, v in values.items() if k.startswith(prefix + "param.")
        }
        match java_trim(class_value.text).removeprefix(_PACKAGE):
            case "FileConfigProvider":
                made[name] = FileProvider(_allowed_paths(parameters))
            case "DirectoryConfigProvider":
                made[name] = DirectoryProvider(_allowed_paths(parameters))
            case "EnvVarConfigProvider":
                pattern = parameters.get("allowlist.pattern")
                made[name] = EnvironmentProvider(_pattern(pattern, class_value, problems))
            case _:
                problems.value(
                    class_value,
                    "no such config provider here: use FileConfigProvider, DirectoryConfigProvider or "
                    f"EnvVarConfigProvider of {_PACKAGE}*",
                )
    return Providers(made)


def _allowed_paths(parameters: Mapping[str, str]) -> _Allowed:
    text = parameters.get("allowed.paths", "").strip()
    return _Allowed(tuple(Path(os.path.normpath(path)) for path in text.split(",") if path) if text else None)


def _pattern(pattern: str | None, value: Value, problems: Problems) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        return compile_java(pattern)
    except JavaRegexError as error:
        problems.error(value.origin, f"allowlist.pattern = {pattern!r}: {error}")
        return None
