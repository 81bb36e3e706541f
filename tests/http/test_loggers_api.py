"""Log levels, read and changed over HTTP."""

import logging
from collections.abc import Iterator

import pytest

from tests.http.conftest import Call
from twinlog import logs


@pytest.fixture(autouse=True)
def _log() -> Iterator[None]:
    names = [None, "twinlog", "twinlog.flow", "twinlog.http", "kafka", "uvicorn", "made.up"]
    before = {name: logging.getLogger(name).level for name in names}
    with logs.Log():
        yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def test_loggers_are_listed_with_log4j_levels(call: Call) -> None:
    found = call("GET", "/admin/loggers").json
    assert found["twinlog"] == {"level": "INFO", "last_modified": None}
    assert found["twinlog.flow"]["level"] == "INFO"
    assert found["kafka"]["level"] == "OFF"
    assert found["root"]["level"] == "WARN"


def test_a_change_applies_to_descendants(call: Call) -> None:
    logging.getLogger("twinlog.flow").setLevel(logging.ERROR)
    changed = call("PUT", "/admin/loggers/twinlog", {"level": "debug"})
    assert (changed.status, changed.json) == (200, ["twinlog", "twinlog.flow"])
    now = call("GET", "/admin/loggers").json
    assert now["twinlog.flow"]["level"] == now["twinlog.http"]["level"] == "DEBUG"
    assert now["twinlog"]["last_modified"] > 1_000_000_000_000
    assert now["kafka"] == {"level": "OFF", "last_modified": None}
    assert logging.getLogger("twinlog.http").isEnabledFor(logging.DEBUG)


def test_one_logger(call: Call) -> None:
    assert call("GET", "/admin/loggers/twinlog").json["level"] == "INFO"
    assert call("GET", "/admin/loggers/made.up").status == 404
    assert call("PUT", "/admin/loggers/made.up", {"level": "ERROR"}).json == ["made.up"]
    assert call("PUT", "/admin/loggers/made.up", {"level": "error"}).json == []
    assert call("GET", "/admin/loggers/made.up").json["level"] == "ERROR"


def test_cluster_wide(call: Call) -> None:
    answer = call("PUT", "/admin/loggers/twinlog?scope=cluster", {"level": "TRACE"})
    assert (answer.status, answer.body) == (204, b"")
    assert call("GET", "/admin/loggers/twinlog").json["level"] == "TRACE"


@pytest.mark.parametrize(("body", "status"), [({}, 400), ({"level": None}, 400), ({"level": "LOUD"}, 404)])
def test_an_unknown_level_is_rejected(call: Call, body: dict[str, str], status: int) -> None:
    assert call("PUT", "/admin/loggers/twinlog", body).status == status
