"""Reads Kubernetes secrets from a folder, `<folder>/<secret's name>/<key>`, as pods mount them."""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinlog.config.providers import Provider

MAX_BYTES = 1 << 20  # Kubernetes' limit


@dataclass(frozen=True, slots=True)
class Secrets:
    folder: Path | None

    def read(self, secret: str, key: str) -> str:
        """One key of a secret. LookupError with a message if it cannot be read."""
        return self._read(self.file(secret, key))

    def file(self, secret: str, key: str) -> Path:
        return self.folder_of(secret) / _name(key)

    def matching(self, secret: str, pattern: str) -> list[Path]:
        """Every key that a glob pattern matches, by name."""
        folder = self.folder_of(secret)
        files = [file for file in sorted(folder.iterdir()) if file.is_file() and fnmatch.fnmatch(file.name, pattern)]
        if not files:
            raise LookupError(f"secret {secret!r}: no key matches {pattern!r} in {folder}; check the pattern")
        return files

    def read_all(self, files: Sequence[Path]) -> str:
        """The concatenated content."""
        if len(files) == 1:
            return self._read(files[0])
        return "\n".join(self._read(file).strip() for file in files) + "\n"

    def folder_of(self, secret: str) -> Path:
        if self.folder is None:
            raise LookupError(f"secret {secret!r} is required; set the directory of mounted secrets with --secrets")
        folder = self.folder / _name(secret)
        if not folder.is_dir():
            raise LookupError(f"secret {secret!r} is missing; expected directory {folder}")
        return folder

    def _read(self, file: Path) -> str:
        if not file.is_file():
            raise LookupError(f"key of a secret is missing; expected file {file}")
        if file.stat().st_size > MAX_BYTES:
            raise LookupError(f"{file}: larger than 1 MiB, the limit of a secret; check the file")
        try:
            return file.read_text("utf-8")
        except UnicodeDecodeError:
            raise LookupError(f"{file}: not text; use PEM for certificates and keys") from None


@dataclass(frozen=True, slots=True)
class SecretsProvider:
    """`${strimzisecrets:<namespace>/<secret>:<key>}`, as Strimzi's provider for Kubernetes secrets."""

    secrets: Secrets

    def get(self, path: str, key: str) -> str | None:
        try:
            return self.secrets.read(path.rpartition("/")[2], key)
        except LookupError as error:
            if self.secrets.folder is None:
                raise  # only a warning: the resource can be shown without its secrets
            raise ValueError(str(error)) from error


@dataclass(frozen=True, slots=True)
class MountedProvider:
    """A file provider with paths of a pod: those below a mounted secret are mapped to the folder of secrets."""

    inner: Provider
    secrets: Secrets
    mounts: Mapping[str, str]  # folder in the pod -> secret

    def get(self, path: str, key: str) -> str | None:
        for folder, secret in self.mounts.items():
            if path == folder or path.startswith(f"{folder}/"):
                return self.inner.get(f"{self.secrets.folder_of(secret)}{path.removeprefix(folder)}", key)
        return self.inner.get(path, key)


def _name(name: str) -> str:
    """Rejects names that would lead out of the folder."""
    if "/" in name or name in ("", ".", ".."):
        raise LookupError(f"{name!r} is not a valid name of a secret or its key")
    return name
