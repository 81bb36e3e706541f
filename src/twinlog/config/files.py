"""Finds and reads the files of a configuration and determines their kinds.

Each file is read once, because it may be a pipe: `twinlog config show <(envsubst < mm2.properties)`, or `-` for stdin.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from twinlog.config.problems import Problems
from twinlog.errors import ConfigError

Kind = Literal["properties", "json", "yaml"]

_ENDINGS: dict[str, Kind] = {".properties": "properties", ".json": "json", ".yaml": "yaml", ".yml": "yaml"}
_RESOURCE = re.compile(rb"""\bkind["']?\s*:\s*["']?KafkaMirrorMaker2\b""")


@dataclass(frozen=True, slots=True)
class Source:
    path: Path
    name: str  # for messages: short and unique
    kind: Kind
    content: bytes
    named: bool  # named by the operator, not found in a folder

    @property
    def text(self) -> str:
        """MM2 reads properties files as ISO-8859-1; the other formats are UTF-8."""
        return self.content.decode("latin-1" if self.kind == "properties" else "utf-8-sig")


def read_sources(paths: Iterable[str | Path], problems: Problems) -> list[Source]:
    found = [(path, content, named) for given in paths for path, content, named in _contents(given)]
    names = Counter(path.name for path, _, _ in found)
    sources = []
    for path, content, named in found:
        name = path.name if names[path.name] == 1 else str(path)
        kind = _kind(path, content)
        if kind != "properties":
            try:
                content.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                problems.error(name, f"not UTF-8: invalid byte at position {error.start}; save the file as UTF-8")
                continue
        elif content.startswith(b"\xef\xbb\xbf"):
            problems.error(name, "begins with a byte order mark, which Java reads as part of the first key; remove it")
            continue
        sources.append(Source(path, name, kind, content, named))
    return sources


def _contents(given: str | Path) -> Iterator[tuple[Path, bytes, bool]]:
    path = Path(given)
    if given == "-":
        yield Path("stdin"), sys.stdin.buffer.read(), True
    elif not str(given):
        raise ConfigError("configuration file: empty name", "check whether a shell variable is unset")
    elif path.is_dir():
        files = [file for file in sorted(path.iterdir()) if file.suffix.lower() in _ENDINGS and file.is_file()]
        found = [(file, content, False) for file in files if _is_config(file, content := file.read_bytes())]
        if not found:
            raise ConfigError(f"{path}: no .json, .properties or KafkaMirrorMaker2 .yaml file in this directory")
        yield from found
    elif path.exists():
        yield path, path.read_bytes(), True
    else:
        raise ConfigError(f"{path}: no such file or directory")


def _is_config(file: Path, content: bytes) -> bool:
    """Skips other YAML files in the folder, such as docker-compose.yml or prometheus.yml."""
    return _ENDINGS[file.suffix.lower()] != "yaml" or _RESOURCE.search(content) is not None


def _kind(path: Path, content: bytes) -> Kind:
    """By the file's extension; without a known one by its content."""
    known = _ENDINGS.get(path.suffix.lower())
    if known != "properties" and _RESOURCE.search(content):
        return "yaml"  # Kubernetes resources may be JSON, which is also YAML
    if known:
        return known
    return "json" if content.lstrip().startswith((b"{", b"[")) else "properties"
