"""What is at which address."""

from collections.abc import Iterator

import pytest
from tests.surface.http.conftest import Call, Remembers, ask

from twinlog.status.board import Board
from twinlog.surface.http import app
from twinlog.surface.http.server import Server

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture(scope="module")
def whole() -> Iterator[Call]:
    with Server(app.build(Remembers(), Board([])), port=0) as server:
        yield lambda *arguments, **named: ask(server.url, *arguments, **named)


def test_a_browser_sees_the_page_and_all_others_what_connect_says(whole: Call) -> None:
    page = whole("GET", "/", headers=BROWSER)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for headers in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}):
        assert whole("GET", "/", headers=headers).json["kafka_cluster_id"] == "3"


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/connectors", "application/json"), ("/metrics", "text/plain"), ("/favicon.ico", "image/svg+xml")],
)
def test_all_is_served_side_by_side(whole: Call, path: str, kind: str) -> None:
    answer = whole("GET", path)
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, kind)


def test_without_a_board_there_is_no_page(call: Call) -> None:
    assert call("GET", "/", headers=BROWSER).json["version"] == "1"
    assert call("GET", "/metrics").json["error_code"] == 404


def test_a_mistake_of_ours_is_one_line_in_the_log(call: Call, caplog: pytest.LogCaptureFixture) -> None:
    answer = call("GET", "/connectors/breaks/config")
    assert (answer.status, answer.json["error_code"]) == (500, 500)
    assert [record.getMessage() for record in caplog.records] == ["GET /connectors/breaks/config failed"]
    assert call("GET", "/connectors").status == 200
