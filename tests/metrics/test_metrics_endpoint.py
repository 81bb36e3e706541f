import gzip
import urllib.request
from collections.abc import Iterator
from email.message import Message
from urllib.error import HTTPError

import pytest
from starlette.applications import Starlette

from tests.status.samples import made_board
from twinlog.http.metrics_endpoint import routes
from twinlog.http.responses import accepts_gzip
from twinlog.http.server import Server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Server(Starlette(routes=list(routes(made_board()))), port=0) as server:
        yield f"{server.url}/metrics"


def get(url: str, method: str = "GET", **headers: str) -> tuple[Message, bytes]:
    request = urllib.request.Request(url, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.headers, answer.read()


def test_text_format_0_0_4(url: str) -> None:
    headers, body = get(url)
    assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert headers["content-encoding"] is None
    assert b"\ntwinlog_flow_up{" in body
    assert body.endswith(b"\n")


def test_gzip_on_request(url: str) -> None:
    headers, body = get(url, **{"Accept-Encoding": "deflate, gzip;q=0.8"})
    assert headers["content-encoding"] == "gzip"
    assert headers["vary"] == "accept-encoding"
    assert b"\ntwinlog_flow_up{" in gzip.decompress(body)


def test_openmetrics_clients_get_the_text_format(url: str) -> None:
    headers, _ = get(url, Accept="application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
    assert headers["content-type"].startswith("text/plain; version=0.0.4")


def test_chosen_names(url: str) -> None:
    _, body = get(f"{url}?name[]=twinlog_epoch&name%5B%5D=twinlog_flow_up")
    assert {line.split()[2] for line in body.decode().splitlines() if line.startswith("# TYPE")} == {
        "twinlog_epoch",
        "twinlog_flow_up",
    }


def test_methods(url: str) -> None:
    assert get(url, "HEAD")[1] == b""
    with pytest.raises(HTTPError, match="405"):
        get(url, "POST")


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("br, gzip ; q=0.5", True),
        ("gzip;q=0", False),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("identity", False),
        ("gzip;q=x", False),
    ],
)
def test_accept_encoding(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted
