"""The log: one line for each event that is worth an operator's attention, as text or as JSON, on standard error.

Everything goes through Python's loggers, so that `/admin/loggers` can change what is said while it runs:

| logger         | level | what                                                       |
|----------------|-------|------------------------------------------------------------|
| twinlog        | INFO  | start, stop, changes, trouble                              |
| twinlog.flow   | INFO  | what becomes of a flow                                     |
| twinlog.http   | INFO  | DEBUG: each request                                        |
| kafka, uvicorn | OFF   | what libraries say; all that matters of it we say          |
"""

import datetime as dt
import json
import logging
import sys
import time
from typing import Any, Literal, Self, TextIO

Format = Literal["text", "json"]

# log4j's names, as Connect's REST API has them.
LEVELS = {
    "ALL": 1, "TRACE": 5, "DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING,
    "ERROR": logging.ERROR, "FATAL": logging.CRITICAL, "OFF": 100,
}  # fmt: skip
LIBRARIES = ("kafka", "uvicorn")
OURS = ("twinlog", "twinlog.flow", "twinlog.http", *LIBRARIES)

_MOVES = 0.5
_WIDTH = 118


class Log:
    """`line` says something for good; `moving` shows how it goes, in one line, where a person looks."""

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
        """One event. As text, a flow's name stands in front; topic and partition are named by the text itself."""
        logger = logging.getLogger("twinlog.flow" if flow else "twinlog")
        fields = {"flow": flow, "topic": topic, "partition": partition, "kind": kind}
        logger.log(LEVELS[level], "%s", text, extra={"fields": fields})

    def moving(self, text: str) -> None:
        now = time.monotonic()
        if self._live and now - self._drawn_at >= _MOVES:
            self._drawn_at = now
            self._writer.show(text[:_WIDTH])

    def open(self) -> None:
        """From now on everything that is logged in this process is written here."""
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
        self._wipe()
        self._write(line + "\n")

    def show(self, text: str) -> None:
        """The line that moves; the next line that stays wipes it."""
        self.acquire()
        try:
            self._wipe()
            self._shown = text
            self._write(text)
        finally:
            self.release()

    def _wipe(self) -> None:
        if self._shown:
            self._write("\r\033[K")
            self._shown = ""

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # a reader that went away must not end what it watched
            pass


def as_text(record: logging.LogRecord) -> str:
    flow = _fields(record).get("flow")
    said = _one_line(record)
    return f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {f'{flow}: {said}' if flow else said}"


def as_json(record: logging.LogRecord) -> str:
    """time, level, flow, topic, partition, kind, text; those that say nothing are left out."""
    at = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
    known: dict[str, Any] = {"time": at.replace("+00:00", "Z"), "level": level_name(record.levelno)}
    known |= {name: value for name, value in _fields(record).items() if value not in ("", None)}
    return json.dumps(known | {"text": _one_line(record)}, ensure_ascii=False)


def level_name(level: int) -> str:
    """The name of the highest of log4j's levels that is not above it."""
    return max((number, name) for name, number in LEVELS.items() if number <= max(level, 1))[1]


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return getattr(record, "fields", {})


def _one_line(record: logging.LogRecord) -> str:
    """An exception is told by its kind and its words; its stack is of use to us alone."""
    said = " ".join(record.getMessage().splitlines())
    error = record.exc_info[1] if record.exc_info else None
    return f"{said}: {type(error).__name__}: {error}" if error else said
