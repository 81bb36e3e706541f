"""Lines of the log, as text and as JSON."""

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from twinlog.logs import Log, level_name


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    names = ("twinlog", "twinlog.flow", "kafka", "uvicorn")
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def test_text_is_a_time_a_flow_and_what_happened() -> None:
    out = io.StringIO()
    with Log("text", out) as log:
        log.line("2 tasks", flow="us->eu", topic="orders", partition=3, kind="start")
        log.line("serving http://127.0.0.1:8083")
    first, second = out.getvalue().splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d us->eu: 2 tasks", first)
    assert re.fullmatch(r"\d\d:\d\d:\d\d serving http://127.0.0.1:8083", second)


def test_json_has_what_is_known_and_no_more() -> None:
    out = io.StringIO()
    with Log("json", out) as log:
        log.line("lost 5 records", level="WARN", flow="us->eu", topic="orders", partition=0, kind="lost")
        log.line('two\nlines\twith "quotes"')
    first, second = map(json.loads, out.getvalue().splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {
        "level": "WARN", "flow": "us->eu", "topic": "orders", "partition": 0, "kind": "lost", "text": "lost 5 records",
    }  # fmt: skip
    assert sorted(second) == ["level", "text", "time"]
    assert second["text"] == 'two lines\twith "quotes"'


def test_what_others_log_is_a_line_as_well_but_the_client_library_is_silent() -> None:
    out = io.StringIO()
    with Log("json", out):
        logging.getLogger("somewhere").warning("a %s", "warning")
        logging.getLogger("kafka.conn").error("a broker is gone")
        logging.getLogger("twinlog.http").debug("a request")
        try:
            int("odd")
        except ValueError:
            logging.getLogger("twinlog.http").exception("GET / failed")
    warning, failed = map(json.loads, out.getvalue().splitlines())
    assert (warning["level"], warning["text"]) == ("WARN", "a warning")
    assert (failed["level"], failed["text"]) == (
        "ERROR",
        "GET / failed: ValueError: invalid literal for int() with base 10: 'odd'",
    )


def test_a_closed_log_writes_nothing_more() -> None:
    out = io.StringIO()
    with Log("text", out) as log:
        pass
    log.line("late")
    assert out.getvalue() == ""


def test_the_line_that_moves_is_wiped_by_the_next_that_stays() -> None:
    out = Terminal()
    with Log("text", out) as log:
        log.moving("1 %")
        log.moving("too soon")
        log.line("done")
    assert re.fullmatch(r"1 %\r\033\[K\d\d:\d\d:\d\d done\n", out.getvalue())


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_progress_line_without_a_terminal(form: str) -> None:
    out = io.StringIO() if form == "text" else Terminal()
    with Log(form, out) as log:  # type: ignore[arg-type]
        log.moving("1 %")
    assert out.getvalue() == ""


def test_a_reader_that_went_away_ends_nothing() -> None:
    out = io.StringIO()
    with Log("text", out) as log:
        out.close()
        log.line("after close")


@pytest.mark.parametrize(
    ("level", "name"),
    [(10, "DEBUG"), (20, "INFO"), (25, "INFO"), (30, "WARN"), (50, "FATAL"), (100, "OFF"), (0, "ALL")],
)
def test_levels_have_log4js_names(level: int, name: str) -> None:
    assert level_name(level) == name
