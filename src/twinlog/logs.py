"""The log on standard error: one line per event, as text or JSON.

Everything goes through Python's loggers, so that `/admin/loggers` can change their levels at runtime:

| logger         | level | content                                                    |
|----------------|-------|------------------------------------------------------------|
| twinlog        | INFO  | start, stop, changes, errors                               |
| twinlog.flow   | INFO  | events of a flow                                           |
| twinlog.http   | INFO  | DEBUG: each request                                        |
| kafka, uvicorn | OFF   | messages of libraries; Twinlog logs what matters           |
"""

import datetime as dt
import json
import logging
import sys
import time
from typing import Any, Literal, Self, TextIO

from twinlog.text import visible

Format = Literal["text", "json"]

# log4j's names, as Connect's REST API has them.
LEVELS = {
    "ALL": 1, "TRACE": 5, "DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING,
    "ERROR": logging.ERROR, "FATAL": logging.CRITICAL, "OFF": 100,
}  # fmt: skip
LIBRARIES = ("kafka", "uvicorn")
OURS = ("twinlog", "twinlog.flow", "twinlog.http", *LIBRARIES)

_REDRAW = 0.5  # seconds
_WIDTH = 118


class Log:
    """`line` logs an event; `moving` updates a progress line, on a terminal only."""

    def __init__(self, form: Format = "text", stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._writer = _Writer(self._stream, form)
        self._live = form == "text" and self._stream.isatty()
        self._drawn_at = 0.0

    def line(
        self,
        text: str,
        *,
        level: str = "INFO",
        flow: str = "",
        topic: str = "",
        partition: int | None = None,
        kind: str = "",
    ) -> None:
        """One event. As text it is prefixed with the flow; topic and partition are part of the text itself."""
        logger = logging.getLogger("twinlog.flow" if flow else "twinlog")
        fields = {"flow": flow, "topic": topic, "partition": partition, "kind": kind}
        logger.log(LEVELS[level], "%s", text, extra={"fields": fields})

    def moving(self, text: str) -> None:
        now = time.monotonic()
        if self._live and now - self._drawn_at >= _REDRAW:
            self._drawn_at = now
            self._writer.show(text[:_WIDTH])

    def open(self) -> None:
        """From now on this log receives everything logged in this process."""
        root = logging.getLogger()
        root.addHandler(self._writer)
        logging.addLevelName(LEVELS["TRACE"], "TRACE")
        logging.getLogger("twinlog").setLevel(logging.INFO)
        for library in LIBRARIES:
            logging.getLogger(library).setLevel(LEVELS["OFF"])

    def close(self) -> None:
        self._writer.show("")
        logging.getLogger().removeHandler(self._writer)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Writer(logging.Handler):
    def __init__(self, stream: TextIO, form: Format) -> None:
        super().__init__()
        self._stream, self._form = stream, form
        self._shown = ""

    def emit(self, record: logging.LogRecord) -> None:
        line = as_json(record) if self._form == "json" else as_text(record)
        self._erase()
        self._write(visible(line) + "\n")

    def show(self, text: str) -> None:
        """Shows the progress line; the next logged line erases it."""
        self.acquire()
        try:
            self._erase()
            self._shown = visible(text)
            self._write(self._shown)
        finally:
            self.release()

    def _erase(self) -> None:
        if self._shown:
            self._write("\r\033[K")
            self._shown = ""

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # a closed pipe must not stop the process
            pass


def as_text(record: logging.LogRecord) -> str:
    flow = _fields(record).get("flow")
    message = _one_line(record)
    return f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {f'{flow}: {message}' if flow else message}"


def as_json(record: logging.LogRecord) -> str:
    """time, level, flow, topic, partition, kind, text, without empty fields."""
    at = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
    known: dict[str, Any] = {"time": at.replace("+00:00", "Z"), "level": level_name(record.levelno)}
    known |= {name: value for name, value in _fields(record).items() if value not in ("", None)}
    return json.dumps(known | {"text": _one_line(record)}, ensure_ascii=False)


def level_name(level: int) -> str:
    """The highest log4j level that is not above it."""
    return max((number, name) for name, number in LEVELS.items() if number <= max(level, 1))[1]


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return getattr(record, "fields", {})


def _one_line(record: logging.LogRecord) -> str:
    """With the type and text of an exception, but not its stack trace."""
    message = " ".join(record.getMessage().splitlines())
    error = record.exc_info[1] if record.exc_info else None
    return f"{message}: {type(error).__name__}: {error}" if error else message
