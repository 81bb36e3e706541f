"""The documentation matches the code."""

import re
import tomllib
from pathlib import Path

import twinlog
from lab.jars import NEWEST, ROOTS
from tests.versions.conftest import PAIRS
from twinlog.config.settings_docs import document

ROOT = Path(__file__).parent.parent


def test_the_settings_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "config.md").read_text()
    assert page == document(), "run: .venv/bin/python -m twinlog.config.settings_docs > docs/config.md"


def test_architecture_lists_every_module() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = (ROOT / "src" / "twinlog", ROOT / "lab", ROOT / "bench", ROOT / "demo", ROOT / "soak")
    modules = [path.name for each in packages for path in each.rglob("*.py") if path.name != "__init__.py"]
    assert [name for name in modules if name not in text] == []
    named = set(re.findall(r"\b(\w+\.py)\b", text))
    elsewhere = {
        p.name
        for folder in ("tests", "lab", "bench", "demo", "soak", "examples")
        for p in (ROOT / folder).rglob("*.py")
    }
    assert named - set(modules) - elsewhere == set()


def test_the_readme_names_existing_make_targets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", (ROOT / "README.md").read_text())) <= targets


def test_versions_match() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == twinlog.__version__
    assert f"## {twinlog.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_readme_has_the_kafka_versions_that_are_tested() -> None:
    text = (ROOT / "README.md").read_text()
    table = [line.strip("| ").split("|") for line in text.splitlines() if re.match(r"\| (source|\d+\.\d+\.\d+) ", line)]
    (_, *targets), *rows = [[cell.strip() for cell in row] for row in table]
    releases = {root.rpartition(":")[2]: line for line, (root, *_) in ROOTS.items() if ":kafka_2.13:" in root}
    assert sorted(targets) == sorted(row[0] for row in rows) == sorted(releases)
    tested = {
        (releases[source], releases[target])
        for source, *cells in rows
        for target, cell in zip(targets, cells, strict=True)
        if cell == "yes"
    }
    assert tested == {*PAIRS, (NEWEST, NEWEST)}


def test_requirements_are_pinned_by_hash_without_an_index() -> None:
    for path in (ROOT / "requirements").glob("*.txt"):
        text = path.read_text()
        assert "--index-url" not in text
        assert "http" not in text
        blocks = re.split(r"\n(?=\S)", text.strip())
        assert [block for block in blocks if "==" not in block or "--hash=sha256:" not in block] == []


def test_every_row_of_parity_names_an_existing_test() -> None:
    lines = (ROOT / "docs/parity.md").read_text().splitlines()
    rows = [
        line for line in lines if line.startswith("|") and not re.match(r"\|(-|\s*(#|case|variation|what MM2))", line)
    ]
    assert len(rows) > 60
    for row in rows:
        found = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)` \|$", row)
        assert found, row
        path, name = found[0]
        assert re.search(rf"def {name}\(", (ROOT / path).read_text()), row
        assert re.search(r"\| (same|better|different|limit) \|", row), row
