"""Fixtures that write a configuration and load it, or return its errors."""

from collections.abc import Callable
from pathlib import Path

import pytest

from twinlog.config import Config, InvalidConfigError, load

Write = Callable[..., Path]
Read = Callable[..., Config]
Mistakes = Callable[..., list[str]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(text: str, name: str = "mm2.properties") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return make


@pytest.fixture
def read(write: Write) -> Read:
    """The Config of a dedicated-mode text."""
    return lambda text, name="mm2.properties", secrets=None: load([write(text, name)], secrets)


@pytest.fixture
def mistakes(write: Write) -> Mistakes:
    """The errors (not the warnings) of a configuration, as an operator sees them."""

    def find(text: str, name: str = "mm2.properties", secrets: Path | None = None) -> list[str]:
        with pytest.raises(InvalidConfigError) as caught:
            load([write(text, name)], secrets)
        assert caught.value.exit_code == 2
        return [str(problem) for problem in caught.value.problems if problem.level == "error"]

    return find
