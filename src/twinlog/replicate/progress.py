"""Tracks the progress of a task, and decides which offset syncs, positions and reports are due."""

import os
import socket
import time
from collections import deque
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final

from twinlog.errors import TwinlogError
from twinlog.journal.messages import REPORTS, Report
from twinlog.journal.partition_fields import COUNTER_NAMES
from twinlog.kafka.client import Client
from twinlog.kafka.records import encode
from twinlog.kafka.topic_writer import append, partition_for
from twinlog.mm2 import source_offsets
from twinlog.mm2.offset_syncs import OffsetSync, SyncGate, encode_headers, encode_key, encode_value
from twinlog.mm2.source_offsets import StoredPosition
from twinlog.model import Flow, OffsetPair, TopicPartition
from twinlog.replicate.ack_deferral import MEASURED_EVERY
from twinlog.replicate.background_writer import BackgroundWriter, PendingRecord
from twinlog.replicate.partition import OutboundBatch, Partition, State
from twinlog.replicate.recovery import RecoveryResult
from twinlog.replicate.resume import lost_offsets, problem_text
from twinlog.replicate.resume_decision import LogProblem
from twinlog.replicate.task_spec import TaskSpec

_IDLE_REPORT_SECONDS: Final = 10.0  # between reports while nothing changes
_SAMPLES: Final = 4096
_STORE_BATCH: Final = 500  # positions in one batch
_PART_BYTES: Final = 400_000  # of a report, in one record
_PART_ITEM_BYTES: Final = 600  # of a partition or an event, without its strings
_MAX_EVENTS: Final = 2000  # not yet reported
_REPORTED_IF_COUNTED: Final = tuple(name for name in COUNTER_NAMES if name not in {"records", "bytes", "batches"})


class ProgressTracker:
    def __init__(self, spec: TaskSpec, writer: BackgroundWriter) -> None:
        self._spec = spec
        self._writer = writer
        self._syncs: list[OffsetSync] = []
        self._unsynced: list[Partition] = []  # whose newest sync may still be due
        self._events: deque[dict[str, Any]] = deque(maxlen=_MAX_EVENTS)
        self._latencies: list[float] = []
        self._reported_at = 0.0
        self._flushed_at = time.monotonic()
        self._reported_error = ""
        self.measures_latency = True  # false: acknowledgements that are read now may have arrived some time ago
        self._host = f"{socket.gethostname()}:{os.getpid()}"

    # Events of the loop

    def fetched(self, partition: Partition, batches: Sequence[OutboundBatch]) -> None:
        now = time.time() * 1000
        for batch in batches:
            if batch.max_timestamp >= 0:
                partition.report.age_ms = age = now - batch.max_timestamp
                partition.report.ages = _add_sample(partition.report.ages, age)

    def acked(self, partition: Partition, batch: OutboundBatch, base: int) -> None:
        if self.measures_latency and batch.max_timestamp >= 0:  # some records have no timestamp
            partition.report.measure_latency_at = time.monotonic() + MEASURED_EVERY
            latency = time.time() * 1000 - batch.max_timestamp
            partition.report.latency_ms = latency
            partition.report.latencies = _add_sample(partition.report.latencies, latency)
            if len(self._latencies) < _SAMPLES:
                self._latencies.append(latency)
        span = partition.stored.acked_span
        if span is not None and batch.offsets is None and batch.first == span[1] + 1 and base == span[3] + span[2]:
            span[1] = batch.last
            span[2] += batch.count
            return
        # Not contiguous: the gate gets the rest of the previous span, then the new batch.
        self._flush_span(partition)
        self._feed_gate(partition, batch.first, batch.last, batch.count, base)
        partition.stored.acked_span = [batch.last + 1, batch.last, 0, base + batch.count]

    def _flush_span(self, partition: Partition) -> None:
        """Passes the acknowledged span to the sync gate."""
        span = partition.stored.acked_span
        if span is not None and span[2]:
            self._feed_gate(partition, *span)
            partition.stored.acked_span = [span[1] + 1, span[1], 0, span[3] + span[2]]

    def _feed_gate(self, partition: Partition, first: int, last: int, count: int, base: int) -> None:
        if partition.stored.sync_gate is None:
            partition.stored.sync_gate = SyncGate(*partition.tp, partition.remote.topic)
        self._syncs += partition.stored.sync_gate.acked(
            first_up=first, last_up=last, count=count, first_down=base, now=time.monotonic()
        )

    def resumed(self, partition: Partition) -> None:
        """After a recovery, whose next batch may not be contiguous. Positions that a crash left unwritten are written
        now, not after the next record, since MM2 may take over.
        """
        self._flush_span(partition)
        self._writer.put(self._positions([partition]))

    def event(
        self, partition: Partition, kind: str, amount: int, text: str, offsets: tuple[int, int] | None = None
    ) -> None:
        """`offsets`: the first and last source offset concerned, if known."""
        self._events.append(_event(partition.tp, kind, amount, text, offsets))

    def task_event(self, kind: str, text: str) -> None:
        """An event of the task, not of one of its partitions."""
        self._events.append({"time": int(time.time() * 1000), "kind": kind, "amount": 0, "text": text})

    # Writes

    def report(self, partitions: Iterable[Partition], now: float) -> None:
        """Called once a second."""
        changed = [p for p in partitions if p.report.changed]
        for partition in dict.fromkeys((*self._unsynced, *changed)):
            self._flush_span(partition)
            if partition.stored.sync_gate is not None and (sync := partition.stored.sync_gate.due(now)) is not None:
                self._syncs.append(sync)
        self._unsynced = changed
        self._write_syncs()
        self._report_write_error()
        # While the last report is unwritten another one is useless; the next one will have all changes.
        if self._writer.is_waiting(self._reports):
            return
        if changed or self._events or now - self._reported_at >= _IDLE_REPORT_SECONDS:
            self._report(changed, now, final=False)

    def _report_write_error(self) -> None:
        """Reports a write error once."""
        error = self._writer.error
        if error and error != self._reported_error:
            self.task_event("warning", error)
        self._reported_error = error or self._reported_error

    def timers(self, partitions: Sequence[Partition], now: float) -> None:
        if now - self._flushed_at >= self._flush_seconds:
            self._flushed_at = now
            self._writer.put(self._positions(partitions))

    def close(self, partitions: Sequence[Partition], now: float) -> None:
        for partition in partitions:
            self._flush_span(partition)
            if (
                partition.stored.sync_gate is not None
                and (sync := partition.stored.sync_gate.due(now, at_once=True)) is not None
            ):
                self._syncs.append(sync)
        self._write_syncs()
        self._writer.put(self._positions(partitions))
        self._report(list(partitions), now, final=True)
        self._writer.flush(self._spec.graceful_seconds)

    def store_starts(self, results: Sequence[RecoveryResult], client: Client) -> None:
        """Stores start positions before the first batch is sent, so that recovery after a crash can count from them.

        Only those that do not follow from an older stored position. Called in recovery threads. A result that cannot be
        stored gets an error, and its partition does not resume.
        """
        by_tp: dict[TopicPartition, list[tuple[RecoveryResult, PendingRecord]]] = {}
        for result in results:
            request, producer = result.request, result.producer
            if not result.must_be_stored:
                continue
            assert producer is not None
            # A remote topic that is suddenly empty may have been re-created, and metadata may still have the old id.
            sure = result.problem is not LogProblem.TARGET_LOST or result.remote_id != request.remote_id
            remote_id = str(result.remote_id) if sure else ""
            stored_position = StoredPosition(
                result.position, result.target_position, str(result.topic_id), -1, *producer, remote_id
            )
            record = self._position_record(request.tp, request.remote, stored_position)
            by_tp.setdefault(record.tp, []).append((result, record))
        for tp, every in by_tp.items():
            for at in range(0, len(every), _STORE_BATCH):
                some = every[at : at + _STORE_BATCH]
                error = self._store(client, tp, [result for result, _ in some], [record for _, record in some])
                for result, _ in some:
                    result.stored, result.error = not error, error

    def _store(
        self, client: Client, tp: TopicPartition, results: list[RecoveryResult], records: list[PendingRecord]
    ) -> str:
        """The error; empty: written."""
        now = int(time.time() * 1000)
        # The events come first: after a crash in between, nothing would report the loss.
        if events := [_event_of(result, self._spec.flow) for result in results if result.problem]:
            for part in split({}, events):
                if error := _append(client, self._reports, encode([(now, None, self._part(*part), ())])):
                    return error
        if not self._writer.supersede(records, client.timeout):
            return f"cluster {client.alias}: {tp}: an earlier write has not completed; retrying"
        return _append(client, tp, encode([(now, record.key, record.value, ()) for record in records]))

    def _write_syncs(self) -> None:
        if self._syncs and self._syncs_location is not None:
            side, topic = self._syncs_location
            self._writer.put(
                [
                    PendingRecord(
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

    def _positions(self, partitions: Iterable[Partition]) -> list[PendingRecord]:
        """Source offsets for MM2, so that it can take over, and our positions, where they have changed."""
        records = []
        spec = self._spec
        for p in partitions:
            if (
                p.target.position < 0 or p.resume.running or not p.target.sequence_confirmed
            ):  # the position is uncertain
                continue
            if p.target.acked_position > 0 and p.stored.mm2_position != p.target.acked_position:
                p.stored.mm2_position = p.target.acked_position
                key = source_offsets.key(spec.connector, spec.flow.source, *p.tp)
                records += self._mm2_offset_records(key, source_offsets.value(p.stored.mm2_position - 1))
            offset_pair = OffsetPair(p.target.acked_position, p.target.position)
            if p.stored.pair != offset_pair:
                p.stored.leader_epoch = p.copied_epoch()
                stored_position = StoredPosition(
                    p.target.acked_position, p.target.position, str(p.source.topic_id), p.stored.leader_epoch,
                    p.target.producer_id, p.target.producer_epoch, p.target.acked_sequence, str(p.target.topic_id),
                )  # fmt: skip
                p.stored.pair = offset_pair
                records.append(self._position_record(p.tp, p.remote, stored_position))
        return records

    def _position_record(
        self, tp: TopicPartition, remote: TopicPartition, stored_position: StoredPosition
    ) -> PendingRecord:
        flow = self._spec.flow
        return self._offsets_record(
            source_offsets.position_key(flow.source, flow.target, *tp, remote.topic), stored_position.encode()
        )

    def _mm2_offset_records(self, key: bytes, value: bytes) -> list[PendingRecord]:
        """As Connect does, also to the connector's own offsets topic, which takes precedence for MM2."""
        records = [self._offsets_record(key, value)]
        if (own := self._spec.own_offsets) is not None:
            tp = TopicPartition(own, partition_for(key, self._spec.own_offsets_partitions))
            records.append(PendingRecord("target", tp, key, value))
        return records

    def _offsets_record(self, key: bytes, value: bytes) -> PendingRecord:
        tp = TopicPartition(self._spec.offsets, partition_for(key, self._spec.offsets_partitions))
        return PendingRecord("target", tp, key, value)

    def _report(self, changed: list[Partition], now: float, *, final: bool) -> None:
        """In several records if needed: a broker refuses records larger than 1 MiB."""
        self._reported_at = now
        latencies = sorted(self._latencies)
        self._latencies = []
        content = {}
        for p in changed:
            p.report.changed = False
            content[str(p.tp)] = report_of(p)
        if latencies:
            middle, high = (
                latencies[len(latencies) // 2],
                latencies[min(len(latencies) * 99 // 100, len(latencies) - 1)],
            )
            content[""] = {"latency_p50_ms": round(middle, 1), "latency_p99_ms": round(high, 1)}
        events, self._events = list(self._events), deque(maxlen=_MAX_EVENTS)
        parts = split(content, events)
        self._writer.put(
            [
                PendingRecord(
                    "target", self._reports, None, self._part(*part, final=final and part is parts[-1]), replaces=False
                )
                for part in parts
            ]
        )

    def _part(self, content: dict[str, dict[str, Any]], events: list[dict[str, Any]], *, final: bool = False) -> bytes:
        spec = self._spec
        now_ms = int(time.time() * 1000)
        sender = self._host, str(spec.config)
        return Report(spec.run, spec.epoch, spec.task, spec.attempt, now_ms, content, events, final, *sender).encode()

    # Constant, but not cheap to derive from the configuration

    @cached_property
    def _syncs_location(self) -> tuple[str, str] | None:
        return self._spec.syncs

    @cached_property
    def _flush_seconds(self) -> float:
        return self._spec.flush_seconds

    @cached_property
    def _reports(self) -> TopicPartition:
        return TopicPartition(self._spec.journal, REPORTS)


def split(
    content: dict[str, dict[str, Any]], events: list[dict[str, Any]]
) -> list[tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]]:
    """Splits a report into parts that fit into one record each, by the number of items and the length of strings."""
    parts: list[tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]] = [({}, [])]
    size = 0
    for name, one in (*content.items(), *((None, event) for event in events)):
        length = _PART_ITEM_BYTES + sum(2 * len(value) for value in one.values() if isinstance(value, str))
        if size + length > _PART_BYTES and size:
            parts.append(({}, []))
            size = 0
        size += length
        if name is None:
            parts[-1][1].append(one)
        else:
            parts[-1][0][name] = one
    return parts


def _event(tp: TopicPartition, kind: str, amount: int, text: str, offsets: tuple[int, int] | None) -> dict[str, Any]:
    event = {
        "time": int(time.time() * 1000),
        "partition": str(tp),
        "kind": kind,
        "amount": amount,
        "text": text,
    }
    if offsets is not None:
        event["first"], event["last"] = offsets
    return event


def _event_of(result: RecoveryResult, flow: Flow) -> dict[str, Any]:
    text = problem_text(result, flow)
    return _event(result.request.tp, str(result.problem), result.amount, text, lost_offsets(result))


def _append(client: Client, tp: TopicPartition, batch: bytearray) -> str:
    """The error; empty: written."""
    try:
        append(client, tp, batch, pauses=(0.2,))
    except TwinlogError as error:
        return str(error)
    return ""


def _add_sample(samples: list[float] | None, value: float) -> list[float]:
    """Count, sum, minimum, maximum."""
    if samples is None:
        return [1, value, value, value]
    samples[0] += 1
    samples[1] += value
    if value < samples[2]:
        samples[2] = value
    elif value > samples[3]:
        samples[3] = value
    return samples


def report_of(p: Partition) -> dict[str, Any]:
    """The status of a partition for a report. Resets the samples, which cover one report."""
    counters = p.report.counters
    if counters.batches > p.report.reported_batches:
        p.report.path = "rebuild" if counters.rebuilt > p.report.reported_rebuilt else "fast"
        p.report.reported_batches, p.report.reported_rebuilt = counters.batches, counters.rebuilt
    content: dict[str, Any] = {
        "topic": p.tp.topic,
        "partition": p.tp.partition,
        "remote": p.remote.topic,
        "state": str(p.state),
        "position": p.target.acked_position,
        "end": p.source.high_watermark,
        "start": p.source.log_start,
        "target": p.target.position,
        "records": counters.records,
        "bytes": counters.bytes,
        "batches": counters.batches,
        "lane": p.report.path,
    }
    if p.report.latencies is not None:
        content["latency_ms"] = round(p.report.latency_ms, 1)
        content["latency"] = [round(each, 1) for each in p.report.latencies]
        p.report.latencies = None
    if p.report.ages is not None:
        content["age_ms"] = round(p.report.age_ms, 1)
        content["age"] = [round(each, 1) for each in p.report.ages]
        p.report.ages = None
    if 0 <= p.source.last_stable < p.source.high_watermark:
        content["stable"] = p.source.last_stable
    if p.until is not None:
        content["until"] = p.until
    if p.report.error:
        content["error"] = p.report.error
    if p.report.stopped_at is not None:  # also during a retry
        content["state"] = str(State.STOPPED)
    for name in _REPORTED_IF_COUNTED:
        if value := getattr(counters, name):
            content[name] = value
    return content
