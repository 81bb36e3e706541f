"""The files of a configuration: which are meant, of which kind each is, and what stands in it, read once.

Once, because a file may be a pipe: `twinlog config show <(envsubst < mm2.properties)`, or `-` for standard input.
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
    name: str  # how messages call it: short, and not the same for two
    kind: Kind
    content: bytes
    named: bool  # by the operator; else it was found in a folder

    @property
    def text(self) -> str:
        """MM2 reads properties as bytes, hence as ISO-8859-1, where every byte is a character; the rest is UTF-8."""
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
                problems.error(name, f"not a text in UTF-8: byte {error.start} cannot be read")
                continue
        elif content.startswith(b"\xef\xbb\xbf"):
            problems.error(
                name, "begins with a byte order mark, which Java takes for a part of the first key: remove it"
            )
            continue
        sources.append(Source(path, name, kind, content, named))
    return sources


def _contents(given: str | Path) -> Iterator[tuple[Path, bytes, bool]]:
    path = Path(given)
    if given == "-":
        yield Path("stdin"), sys.stdin.buffer.read(), True
    elif not str(given):
        raise ConfigError("an empty name is no file: is a variable not set?")
    elif path.is_dir():
        files = [file for file in sorted(path.iterdir()) if file.suffix.lower() in _ENDINGS and file.is_file()]
        inside = [(file, content, False) for file in files if _is_meant(file, content := file.read_bytes())]
        if not inside:
            raise ConfigError(f"{path}: the folder holds no .json, .properties or KafkaMirrorMaker2 .yaml file")
        yield from inside
    elif path.exists():
        yield path, path.read_bytes(), True
    else:
        raise ConfigError(f"{path}: no such file or folder")


def _is_meant(file: Path, content: bytes) -> bool:
    """In a folder there often lie a docker-compose.yml or a prometheus.yml beside the files that are meant."""
    return _ENDINGS[file.suffix.lower()] != "yaml" or _RESOURCE.search(content) is not None


def _kind(path: Path, content: bytes) -> Kind:
    """By the ending; where that says nothing, by what stands in it."""
    known = _ENDINGS.get(path.suffix.lower())
    if known != "properties" and _RESOURCE.search(content):
        return "yaml"  # every Kubernetes resource may be JSON, which is YAML too
    if known:
        return known
    return "json" if content.lstrip().startswith((b"{", b"[")) else "properties"
