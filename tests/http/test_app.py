"""The paths of the application."""

import logging
from collections.abc import Iterator

import pytest

from tests.http.conftest import Call, RecordingWorker, send
from twinlog.http import app
from twinlog.http.server import Server
from twinlog.status.flow_board import FlowBoard

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture(scope="module")
def full_app() -> Iterator[Call]:
    with Server(app.build(RecordingWorker(), FlowBoard([])), port=0) as server:
        yield lambda *arguments, **named: send(server.url, *arguments, **named)


def test_a_browser_gets_the_page_and_other_clients_connects_info(full_app: Call) -> None:
    page = full_app("GET", "/", headers=BROWSER)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for headers in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}):
        assert full_app("GET", "/", headers=headers).json["kafka_cluster_id"] == "3"


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/connectors", "application/json"), ("/metrics", "text/plain"), ("/favicon.ico", "image/svg+xml")],
)
def test_api_metrics_and_page_share_a_port(full_app: Call, path: str, kind: str) -> None:
    answer = full_app("GET", path)
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, kind)


def test_without_a_board_there_is_no_page(call: Call) -> None:
    assert call("GET", "/", headers=BROWSER).json["version"] == "1"
    assert call("GET", "/metrics").json["error_code"] == 404


def test_a_bug_is_one_line_in_the_log(call: Call, caplog: pytest.LogCaptureFixture) -> None:
    answer = call("GET", "/connectors/breaks/config")
    assert (answer.status, answer.json["error_code"]) == (500, 500)
    messages = [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]
    assert messages == ["GET /connectors/breaks/config failed"]
    assert call("GET", "/connectors").status == 200
