"""What the documents say is what the code does."""

import re
import tomllib
from pathlib import Path

import twinlog
from twinlog.config.document import document

ROOT = Path(__file__).parent.parent


def test_the_settings_page_is_made_from_the_table() -> None:
    page = (ROOT / "docs" / "config.md").read_text()
    assert page == document(), "run: .venv/bin/python -m twinlog.config.document > docs/config.md"


def test_the_map_of_the_files_names_every_module() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    modules = [p.name for p in (ROOT / "src" / "twinlog").rglob("*.py") if p.name != "__init__.py"]
    assert [name for name in modules if name not in text] == []
    named = set(re.findall(r"\b(\w+\.py)\b", text))
    assert named - set(modules) - {p.name for p in (ROOT / "tests").rglob("*.py")} == set()


def test_the_readme_names_only_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z]+)`", (ROOT / "README.md").read_text())) <= targets


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == twinlog.__version__
    assert f"## {twinlog.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_requirements_are_pinned_with_hashes_and_name_no_index() -> None:
    for path in (ROOT / "requirements").glob("*.txt"):
        text = path.read_text()
        assert "--index-url" not in text
        assert "http" not in text
        blocks = re.split(r"\n(?=\S)", text.strip())
        assert [block for block in blocks if "==" not in block or "--hash=sha256:" not in block] == []
