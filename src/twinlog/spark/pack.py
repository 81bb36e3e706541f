"""Packs Twinlog, Python and all dependencies into one archive: `python -m twinlog.spark.pack OUT.tar.gz`.

Spark sends it to executors (`--archives OUT.tar.gz#env`), which then need neither Python nor Twinlog installed; they
run `spark.pyspark.python=./env/bin/python`. Spark itself is not included: executors have it. The archive must be
gzipped: Spark does not restore execute permissions from a plain .tar.

A virtual environment would not work: it refers to the Python it was created with. So the interpreter is copied with its
standard library and all shared libraries except those of glibc. The archive has no links: Spark rejects some of them.
"""

import importlib.metadata
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import twinlog
from twinlog.errors import SparkError

# Part of glibc: on every machine, and not compatible with another version of it.
_SYSTEM: Final = re.compile(r"/(ld-linux[^/]*|lib(c|m|dl|rt|util|pthread|resolv|nsl|crypt|anl))\.so")
_LIBRARY: Final = re.compile(r"^\t(\S+) => (/\S+)", re.MULTILINE)
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
# Only needed for builds, tests and examples; and Spark's jars, which executors have.
_LEFT_OUT: Final = {"test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "site-packages"}
_LEFT_OUT_OF_SPARK: Final = {"jars", "examples", "data", "bin", "sbin", "licenses"}
_STATIC: Final = re.compile(r"config-.*|_tkinter\..*|.*\.(a|lib|pxd|pyi|h|hpp|cmd)")

# Wrapper of the interpreter, which expects its standard library next to it. Compiled code is cached inside the folder,
# so that nothing is left on the machine when Spark removes it.
_PYTHON: Final = """\
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH="$here/../lib/shared${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" \\
TWINLOG_CACHE="${{TWINLOG_CACHE:-$here/../cache}}" \\
exec "$here/{python}" "$@"
"""
_TWINLOG: Final = """\
#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/python" -c 'from twinlog.cli.main import main; main()' "$@"
"""


def pack(archive: Path, level: int = 3) -> Path:
    """Writes the archive atomically. `level` is gzip's: the default 9 takes minutes for a few percent."""
    if not archive.name.endswith((".tar.gz", ".tgz")) or not sys.platform.startswith("linux"):
        raise SparkError(f"{archive}: not supported; name it *.tar.gz or *.tgz, on Linux")
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_name(f".{archive.name}.partial")
    with tempfile.TemporaryDirectory(prefix="twinlog-pack-", dir=archive.parent) as name:
        home = Path(name)
        _interpreter(home)
        _packages(home)
        _libraries(home)
        try:
            with tarfile.open(partial, "w:gz", compresslevel=level) as out:
                for each in sorted(home.iterdir()):  # not the folder itself: Spark rejects an entry for "."
                    out.add(each, each.name, filter=_anonymous)
            return partial.replace(archive)
        finally:
            partial.unlink(missing_ok=True)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _interpreter(home: Path) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (home / "bin").mkdir(parents=True)
    shutil.copy2(Path(sys.executable).resolve(), home / "bin" / version)
    for name, text in (("python", _PYTHON.format(python=version)), ("twinlog", _TWINLOG)):
        script = home / "bin" / name
        script.write_text(text)
        script.chmod(0o755)
    for kind in ("stdlib", "platstdlib"):
        library = Path(sysconfig.get_path(kind, vars={"base": sys.base_prefix, "platbase": sys.base_exec_prefix}))
        shutil.copytree(library, home / "lib" / version, dirs_exist_ok=True, ignore=_unneeded)


def _packages(home: Path) -> None:
    """Copies Twinlog and its dependencies to the interpreter's package folder, which differs by distribution."""
    command = [str(home / "bin" / "python"), "-I", "-c", "import site; print(site.getsitepackages()[0])"]
    packages = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    if not packages.resolve().is_relative_to(home.resolve()):
        raise SparkError(f"{sys.executable}: cannot be relocated (packages in {packages}); use another Python")
    for name in sorted(_dependencies("twinlog")):
        found = importlib.metadata.distribution(name)
        for file in found.files or ():
            if not _is_unneeded(file.parts) and ".." not in file.parts:
                copy = packages / file
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(Path(str(found.locate_file(file))), copy)
    source = Path(twinlog.__file__).resolve().parent  # it may be an editable install, without files
    shutil.copytree(source, packages / "twinlog", dirs_exist_ok=True, ignore=_unneeded)
    shutil.copy2(source / "cli" / "spark_submit.py", home / "bin" / "twinlog-submit.py")


def _dependencies(name: str, known: set[str] | None = None) -> set[str]:
    """All installed dependencies: one that is not installed is not for this platform, so markers are not evaluated."""
    known = set() if known is None else known
    for line in importlib.metadata.requires(name) or ():
        needed, _, marker = line.partition(";")
        match = _NAME.match(needed.strip())
        if match is None or "extra" in marker or match[0] in known:
            continue
        try:
            importlib.metadata.distribution(match[0])
        except importlib.metadata.PackageNotFoundError:
            continue
        known.add(match[0])
        _dependencies(match[0], known)
    return known


def _libraries(home: Path) -> None:
    """Copies the shared libraries that the copied files need."""
    files = [file for file in home.rglob("*") if not file.is_symlink() and file.is_file() and _is_elf(file)]
    shared = home / "lib" / "shared"
    shared.mkdir()
    for name, path in _needed(files):
        if not _SYSTEM.search(path) and not Path(path).resolve().is_relative_to(home.resolve()):
            shutil.copy2(path, shared / name)


def _needed(files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """(name, path) of libraries, without duplicates; ldd also lists indirect dependencies."""
    output = subprocess.run(["ldd", *files], check=False, capture_output=True, text=True).stdout
    yield from dict.fromkeys((match[1], match[2]) for match in _LIBRARY.finditer(output))


def _is_elf(file: Path) -> bool:
    if ".so" not in file.name and file.parent.name != "bin":
        return False
    with file.open("rb") as content:
        return content.read(4) == b"\x7fELF"


def _unneeded(folder: str, names: list[str]) -> list[str]:
    del folder
    return [name for name in names if name in _LEFT_OUT or _STATIC.fullmatch(name)]


def _is_unneeded(parts: tuple[str, ...]) -> bool:
    if parts[0] == "pyspark" and len(parts) > 1 and parts[1] in _LEFT_OUT_OF_SPARK:
        return True
    return any(part in _LEFT_OUT or _STATIC.fullmatch(part) for part in parts)


def main() -> None:
    match sys.argv[1:]:
        case [out]:
            level = 3
        case [out, digit] if digit in "0123456789":
            level = int(digit)
        case _:
            sys.exit("usage: python -m twinlog.spark.pack OUT.tar.gz [0-9]")
    try:
        archive = pack(Path(out), level)
    except SparkError as error:
        sys.exit(f"twinlog: {error}")
    print(f"{archive}: {archive.stat().st_size / 1e6:,.0f} MB")  # noqa: T201


if __name__ == "__main__":
    main()
