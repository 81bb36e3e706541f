"""Keeps the books of a task: which syncs, offsets, cursors and reports are due. The clerk writes them."""

import os
import socket
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from twinlog.errors import TwinlogError
from twinlog.kafka.client import Client
from twinlog.kafka.records import encode
from twinlog.model import Anchor, TopicPartition
from twinlog.pipeline.clerk import Clerk, Note
from twinlog.pipeline.job import Job
from twinlog.pipeline.partition import Partition, Piece
from twinlog.pipeline.recovery import Finding
from twinlog.tracking import source_offsets
from twinlog.tracking.journal import REPORTS, Report
from twinlog.tracking.murmur2 import partition_for
from twinlog.tracking.offset_syncs import OffsetSync, SyncGate, encode_headers, encode_key, encode_value
from twinlog.tracking.source_offsets import Cursor

_QUIET: Final = 10.0  # a task with no news says so this often
_SAMPLES: Final = 4096
_LAST_WRITES: Final = 5.0


class Ledger:
    def __init__(self, job: Job, clerk: Clerk) -> None:
        self._job = job
        self._clerk = clerk
        self._syncs: list[OffsetSync] = []
        self._unsynced: list[Partition] = []  # whose newest sync may still be due
        self._events: list[dict[str, Any]] = []
        self._latencies: list[float] = []
        self._reported_at = 0.0
        self._flushed_at = time.monotonic()
        self._complained = ""
        self._host = f"{socket.gethostname()}:{os.getpid()}"

    # What happens

    def fetched(self, partition: Partition, pieces: Sequence[Piece]) -> None:
        now = time.time() * 1000
        for piece in pieces:
            if piece.max_timestamp >= 0:
                partition.age_ms = age = now - piece.max_timestamp
                partition.ages = _gathered(partition.ages, age)

    def acked(self, partition: Partition, piece: Piece, base: int) -> None:
        if piece.max_timestamp >= 0:  # some records have no time
            latency = time.time() * 1000 - piece.max_timestamp
            partition.latency_ms = latency
            partition.latencies = _gathered(partition.latencies, latency)
            if len(self._latencies) < _SAMPLES:
                self._latencies.append(latency)
        span = partition.span
        if span is not None and piece.offsets is None and piece.first == span[1] + 1 and base == span[3] + span[2]:
            span[1] = piece.last
            span[2] += piece.count
            return
        # A new run begins: said at once, after the end of the one before.
        self._settle(partition)
        self._tell(partition, piece.first, piece.last, piece.count, base)
        partition.span = [piece.last + 1, piece.last, 0, base + piece.count]

    def _settle(self, partition: Partition) -> None:
        """Tells the gate what has gathered since it was last told."""
        span = partition.span
        if span is not None and span[2]:
            self._tell(partition, *span)
            partition.span = [span[1] + 1, span[1], 0, span[3] + span[2]]

    def _tell(self, partition: Partition, first: int, last: int, count: int, base: int) -> None:
        if partition.gate is None:
            partition.gate = SyncGate(*partition.place)
        self._syncs += partition.gate.acked(
            first_up=first, last_up=last, count=count, first_down=base, now=time.monotonic()
        )

    def resumed(self, partition: Partition) -> None:
        """After a recovery the next batch may not follow the last one: let the gate see."""
        self._settle(partition)

    def event(
        self, partition: Partition, kind: str, amount: int, text: str, offsets: tuple[int, int] | None = None
    ) -> None:
        """`offsets` are the first and the last one of the source that it is about, where that is known."""
        event = {
            "time": int(time.time() * 1000),
            "partition": str(partition.place),
            "kind": kind,
            "amount": amount,
            "text": text,
        }
        if offsets is not None:
            event["first"], event["last"] = offsets
        self._events.append(event)

    def say(self, kind: str, text: str) -> None:
        """Of the task itself, not of one of its partitions."""
        self._events.append({"time": int(time.time() * 1000), "kind": kind, "amount": 0, "text": text})

    # What is written of it

    def report(self, partitions: Iterable[Partition], now: float) -> None:
        """Once a second."""
        changed = [p for p in partitions if p.changed]
        for partition in dict.fromkeys((*self._unsynced, *changed)):
            self._settle(partition)
            if partition.gate is not None and (sync := partition.gate.due(now)) is not None:
                self._syncs.append(sync)
        self._unsynced = changed
        self._write_syncs()
        self._complain()
        if changed or self._events or now - self._reported_at >= _QUIET:
            self._report(changed, now, final=False)

    def _complain(self) -> None:
        """What cannot be written is told where people look, once."""
        error = self._clerk.error
        if error and error != self._complained:
            self.say("warning", error)
        self._complained = error or self._complained

    def timers(self, partitions: Sequence[Partition], now: float) -> None:
        if now - self._flushed_at >= self._job.flush_seconds:
            self._flushed_at = now
            self._clerk.put(self._positions(partitions))

    def close(self, partitions: Sequence[Partition], now: float) -> None:
        for partition in partitions:
            self._settle(partition)
            if partition.gate is not None and (sync := partition.gate.due(now, at_once=True)) is not None:
                self._syncs.append(sync)
        self._write_syncs()
        self._clerk.put(self._positions(partitions))
        self._report(list(partitions), now, final=True)
        self._clerk.flush(_LAST_WRITES)

    def secure(self, findings: Sequence[Finding], client: Client) -> None:
        """Before a partition's first batch: where it begins, so that a crash right after can be counted back to it.

        Called in recovery's thread; raises when it cannot be written, and then nothing begins.
        """
        notes = []
        for finding in findings:
            question = finding.question
            anchor = Anchor(finding.position, finding.expected)
            if question.had_cursor and anchor in question.anchors:
                continue
            assert finding.producer is not None
            cursor = Cursor(
                finding.position, finding.expected, str(finding.topic_id), finding.leader_epoch,
                finding.producer.id, finding.producer.epoch, finding.producer.sequence,
            )  # fmt: skip
            notes.append(self._cursor_note(question.place, cursor))
        by_place: dict[TopicPartition, list[Note]] = {}
        for note in notes:
            by_place.setdefault(note.place, []).append(note)
        now = int(time.time() * 1000)
        for place, some in by_place.items():
            for at in range(0, len(some), 500):
                batch = encode([(now, note.key, note.value, ()) for note in some[at : at + 500]])
                try:
                    client.append(place, batch)
                except TwinlogError:  # its leader may have moved
                    time.sleep(0.2)
                    client.append(place, batch)

    def _write_syncs(self) -> None:
        where = self._job.syncs
        if where is not None:
            side, topic = where
            self._clerk.put(
                [
                    Note(
                        side,
                        TopicPartition(topic, 0),
                        encode_key(sync),
                        encode_value(sync),
                        tuple((name.encode(), value) for name, value in encode_headers(sync)),
                        replaces=False,
                    )
                    for sync in self._syncs
                ]
            )
        self._syncs = []

    def _positions(self, partitions: Sequence[Partition]) -> list[Note]:
        """MM2's source offsets, so that it can take over, and our cursors; of those that moved."""
        notes = []
        job = self._job
        for p in partitions:
            anchor = Anchor(p.acked, p.expected)
            if p.expected < 0 or p.written == anchor:
                continue
            p.written = anchor
            if p.acked > 0:
                key = source_offsets.key(job.connector, job.flow.source, *p.place)
                notes.append(self._note(key, source_offsets.value(p.acked - 1)))
            cursor = Cursor(
                p.acked, p.expected, str(p.topic_id), p.leader_epoch, p.producer_id, p.producer_epoch, p.acked_sequence
            )
            notes.append(self._cursor_note(p.place, cursor))
        return notes

    def _cursor_note(self, place: TopicPartition, cursor: Cursor) -> Note:
        flow = self._job.flow
        return self._note(source_offsets.cursor_key(flow.source, flow.target, *place), cursor.encode())

    def _note(self, key: bytes, value: bytes) -> Note:
        place = TopicPartition(self._job.offsets, partition_for(key, self._job.offsets_partitions))
        return Note("target", place, key, value)

    def _report(self, changed: list[Partition], now: float, *, final: bool) -> None:
        self._reported_at = now
        job = self._job
        latencies = sorted(self._latencies)
        self._latencies = []
        content = {}
        for p in changed:
            p.changed = False
            content[str(p.place)] = told(p)
        if latencies:
            middle, high = (
                latencies[len(latencies) // 2],
                latencies[min(len(latencies) * 99 // 100, len(latencies) - 1)],
            )
            content[""] = {"latency_p50_ms": round(middle, 1), "latency_p99_ms": round(high, 1)}
        events, self._events = self._events, []
        now_ms = int(time.time() * 1000)
        whose = self._host, str(job.config)
        report = Report(job.run, job.epoch, job.task, job.attempt, now_ms, content, events, final, *whose)
        self._clerk.put([Note("target", TopicPartition(job.journal, REPORTS), None, report.encode(), replaces=False)])


def _gathered(told: list[float] | None, value: float) -> list[float]:
    """Count, sum, least, most."""
    if told is None:
        return [1, value, value, value]
    told[0] += 1
    told[1] += value
    if value < told[2]:
        told[2] = value
    elif value > told[3]:
        told[3] = value
    return told


def told(p: Partition) -> dict[str, Any]:
    """A partition as others hear of it; what happened since they last did is told once."""
    counters = p.counters
    if counters.batches > p.told_batches:
        p.lane = "rebuild" if counters.rebuilt > p.told_rebuilt else "fast"
        p.told_batches, p.told_rebuilt = counters.batches, counters.rebuilt
    content: dict[str, Any] = {
        "topic": p.place.topic,
        "partition": p.place.partition,
        "remote": p.remote.topic,
        "state": str(p.state),
        "position": p.acked,
        "end": p.high_watermark,
        "start": p.log_start,
        "target": p.expected,
        "records": counters.records,
        "bytes": counters.bytes,
        "batches": counters.batches,
        "lane": p.lane,
    }
    if p.latencies is not None:
        content["latency_ms"] = round(p.latency_ms, 1)
        content["latency"] = [round(each, 1) for each in p.latencies]
        p.latencies = None
    if p.ages is not None:
        content["age_ms"] = round(p.age_ms, 1)
        content["age"] = [round(each, 1) for each in p.ages]
        p.ages = None
    if 0 <= p.last_stable < p.high_watermark:
        content["stable"] = p.last_stable
    if p.until is not None:
        content["until"] = p.until
    if p.error:
        content["error"] = p.error
    for name in ("rebuilt", "lost", "foreign", "duplicates", "skipped", "recoveries"):
        if value := getattr(counters, name):
            content[name] = value
    return content
