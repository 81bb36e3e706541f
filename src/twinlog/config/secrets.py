"""Kubernetes secrets as a folder: `<folder>/<secret's name>/<key>`, the way pods mount them."""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinlog.config.providers import Provider

MOST_BYTES = 1 << 20  # Kubernetes itself allows no larger secret


@dataclass(frozen=True, slots=True)
class Secrets:
    folder: Path | None

    def read(self, secret: str, key: str) -> str:
        """One key of a secret. LookupError with a sentence where it cannot be had."""
        return self._read(self.file(secret, key))

    def file(self, secret: str, key: str) -> Path:
        return self.folder_of(secret) / _name(key)

    def matching(self, secret: str, pattern: str) -> list[Path]:
        """Every key that a glob pattern matches, by name."""
        folder = self.folder_of(secret)
        files = [file for file in sorted(folder.iterdir()) if file.is_file() and fnmatch.fnmatch(file.name, pattern)]
        if not files:
            raise LookupError(f"no key of secret {secret!r} matches {pattern!r} in {folder}")
        return files

    def read_all(self, files: Sequence[Path]) -> str:
        """One after the other."""
        if len(files) == 1:
            return self._read(files[0])
        return "\n".join(self._read(file).strip() for file in files) + "\n"

    def folder_of(self, secret: str) -> Path:
        if self.folder is None:
            raise LookupError(f"secret {secret!r} is needed: name the folder of mounted secrets with --secrets")
        folder = self.folder / _name(secret)
        if not folder.is_dir():
            raise LookupError(f"secret {secret!r} is not there: expected the folder {folder}")
        return folder

    def _read(self, file: Path) -> str:
        if not file.is_file():
            raise LookupError(f"expected the file {file}")
        if file.stat().st_size > MOST_BYTES:
            raise LookupError(f"{file} is larger than a secret can be")
        try:
            return file.read_text("utf-8")
        except UnicodeDecodeError:
            raise LookupError(f"{file} is not a text: certificates and keys are read as PEM") from None


@dataclass(frozen=True, slots=True)
class SecretsProvider:
    """`${strimzisecrets:<namespace>/<secret>:<key>}`, as Strimzi's provider of Kubernetes secrets."""

    secrets: Secrets

    def get(self, path: str, key: str) -> str | None:
        try:
            return self.secrets.read(path.rpartition("/")[2], key)
        except LookupError as error:
            if self.secrets.folder is None:
                raise  # it can still be looked at, without its secrets
            raise ValueError(str(error)) from error


@dataclass(frozen=True, slots=True)
class MountedProvider:
    """A provider of files whose paths are a pod's: where a secret is mounted there, it is looked for in our folder."""

    inner: Provider
    secrets: Secrets
    mounts: Mapping[str, str]  # folder in the pod -> secret

    def get(self, path: str, key: str) -> str | None:
        for folder, secret in self.mounts.items():
            if path == folder or path.startswith(f"{folder}/"):
                return self.inner.get(f"{self.secrets.folder_of(secret)}{path.removeprefix(folder)}", key)
        return self.inner.get(path, key)


def _name(name: str) -> str:
    """A secret's name or key is one step of a path, never a way out of the folder."""
    if "/" in name or name in ("", ".", ".."):
        raise LookupError(f"{name!r} cannot be the name of a secret or of its key")
    return name
