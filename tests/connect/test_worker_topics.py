"""Records that are written in the background: retried, and not dropped when the worker is closed."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from twinlog.connect import worker_topics
from twinlog.connect.worker_topics import KeyedWriter
from twinlog.errors import UnreachableError


class FakeClient:
    closed = False

    def close(self) -> None:
        self.closed = True


Write = Callable[[Any, str, Iterable[tuple[bytes, bytes | None]]], None]


def _fails(times: int, written: dict[bytes, bytes | None]) -> Write:
    attempts: list[str] = []

    def write(_client: Any, topic: str, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        attempts.append(topic)
        if len(attempts) <= times:
            raise UnreachableError("down")
        written.update(entries)

    return write


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_topics, "_RETRY_S", 0.05)
    monkeypatch.setattr(worker_topics, "_CLOSE_TIMEOUT_S", 5.0)


def test_closing_retries(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[bytes, bytes | None] = {}
    monkeypatch.setattr(worker_topics, "write_keyed", _fails(4, written))
    writer = KeyedWriter(client, "status")
    writer.put([(b"a", b"1"), (b"b", b"1")])
    writer.put([(b"a", b"2")])
    writer.close()
    assert written == {b"a": b"2", b"b": b"1"}
    assert client.closed


def test_closing_ends_even_if_the_cluster_is_down(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_topics, "_CLOSE_TIMEOUT_S", 1.0)
    monkeypatch.setattr(worker_topics, "write_keyed", _fails(1_000_000, {}))
    writers = [KeyedWriter(client, "status"), KeyedWriter(client, "offsets")]
    began = time.monotonic()
    for writer in writers:
        writer.put([(b"a", b"1")])
        writer.request_close()
    for writer in writers:
        writer.close()
    assert time.monotonic() - began < 1.0 * len(writers), "they share the time"
    for writer in writers:
        writer._thread.join(5)
        assert not writer._thread.is_alive()


def test_closing_without_records_asks_nothing(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_topics, "write_keyed", lambda *_: pytest.fail("nothing to write"))
    writer = KeyedWriter(client, "status")
    writer.close()
    assert client.closed
