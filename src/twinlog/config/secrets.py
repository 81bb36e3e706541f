"""Kubernetes secrets as a folder: `<folder>/<secret's name>/<key>`, the way pods mount them."""

import fnmatch
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 1 << 20  # Kubernetes itself allows no larger secret


@dataclass(frozen=True, slots=True)
class Secrets:
    folder: Path | None
    namespace: str = "default"

    def read(self, secret: str, key: str) -> str:
        """One key of a secret. LookupError with a sentence where it cannot be had."""
        return self._read(self._folder(secret) / _name(key))

    def matching(self, secret: str, pattern: str) -> str:
        """Every key that a glob pattern matches, one after the other, by name."""
        folder = self._folder(secret)
        files = [file for file in sorted(folder.iterdir()) if file.is_file() and fnmatch.fnmatch(file.name, pattern)]
        if not files:
            raise LookupError(f"no key of secret {secret!r} matches {pattern!r} in {folder}")
        return "\n".join(self._read(file).strip() for file in files) + "\n"

    def _folder(self, secret: str) -> Path:
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
        return file.read_text()


@dataclass(frozen=True, slots=True)
class SecretsProvider:
    """`${strimzisecrets:<namespace>/<secret>:<key>}`, as Strimzi's provider of Kubernetes secrets."""

    secrets: Secrets

    def get(self, path: str, key: str) -> str | None:
        try:
            return self.secrets.read(path.rpartition("/")[2], key)
        except LookupError as error:
            raise ValueError(str(error)) from error


def _name(name: str) -> str:
    """A secret's name or key is one step of a path, never a way out of the folder."""
    if "/" in name or name in ("", ".", ".."):
        raise LookupError(f"{name!r} cannot be the name of a secret or of its key")
    return name
