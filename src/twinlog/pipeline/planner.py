"""Looks at both clusters and plans an epoch: which topics, which remote topics are missing, who carries what."""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import RefusedError, RelayError
from twinlog.kafka import codes
from twinlog.kafka.client import LATEST, NO_ID, Client
from twinlog.kafka.reading import TopicReader
from twinlog.model import TopicPartition
from twinlog.pipeline.job import Claim, Job
from twinlog.pipeline.positions import Positions
from twinlog.topology.assignment import assign, lopsided
from twinlog.topology.selection import offset_syncs_location, selection_of
from twinlog.tracking import source_offsets
from twinlog.tracking.journal import COMMANDS, PARTITIONS, REPORTS, Command, Report, journal_topic
from twinlog.tracking.loads import Loads
from twinlog.upkeep.internal import COMPACTED, PATIENT, appear, ensure, write
from twinlog.upkeep.loops import LoopGuard
from twinlog.upkeep.remote_topics import RemoteTopics

_RETENTION: Final = {"cleanup.policy": "delete", "retention.ms": "3600000", "segment.bytes": "16777216"}
_APPEARS: Final = 10.0  # how long a new topic may take until every broker knows it


@dataclass(frozen=True, slots=True)
class Plan:
    groups: list[list[Claim]]
    producers: tuple[int, ...]
    journal_offset: int
    offsets_partitions: int


class Planner:
    """Belongs to one thread. `run` names this run of the flow; a later one ends it."""

    def __init__(self, config: FlowConfig, run: str, flows: Sequence[FlowConfig] = ()) -> None:
        """`flows` are all of the file: where names are kept, one of them may bring records back."""
        assert config.source is not None
        self.config = config
        self.run = run
        self._settings = config.source.settings
        self._selection = selection_of(config)
        job = Job(config.flow, config, (), ())
        self.source = job.client("source")
        self.target = job.client("target")
        self._journal = journal_topic(config.flow.source)
        self._positions = Positions(config, self.source, self.target)
        self._reports = TopicReader(self.target, self._journal)
        self._commands = TopicReader(self.target, self._journal)
        self.loads = Loads()
        # As MM2 does: what is made is made by the admin clients, which may log in as somebody else.
        clients, name = config.source.clients, f"twinlog-{config.flow}-topics"
        self._source_admin = Client(config.flow.source, clients["source.admin"], name)
        self._target_admin = Client(config.flow.target, clients["target.admin"], name)
        self._remote_topics = RemoteTopics(config, self._source_admin, self._target_admin, self._warn)
        self._loops = LoopGuard(config, flows)
        self._said: dict[str, str] = {}
        self.warnings: list[str] = []  # new since they were last taken
        self.harmless: set[str] = set()  # those of them that are about topics which are copied all the same
        self._current = run
        self._announced = False
        self.stopped = False  # somebody told this run to end

    def close(self) -> None:
        for client in (self.source, self.target, self._source_admin, self._target_admin):
            client.close()

    # Before the first epoch

    def prepare(self) -> None:
        self.make_topics()
        self.announce()

    def make_topics(self) -> None:
        """The topics beside the records."""
        flow, worker = self.config.flow, self.config.worker.settings
        offsets = source_offsets.offsets_topic(self.config)
        ensure(
            self._target_admin,
            offsets.name,
            offsets.partitions,
            offsets.replication_factor,
            COMPACTED,
            f"{flow.target}.offset.storage.replication.factor",
        )
        ensure(
            self._target_admin,
            self._journal,
            PARTITIONS,
            worker.status_storage_replication_factor,
            _RETENTION,
            f"{flow.target}.status.storage.replication.factor",
        )
        if self._settings.emit_offset_syncs_enabled:
            side, topic = offset_syncs_location(self.config)
            client = self._source_admin if side == "source" else self._target_admin
            ensure(
                client,
                topic,
                1,
                self._settings.offset_syncs_topic_replication_factor,
                COMPACTED,
                "offset-syncs.topic.replication.factor",
            )

    def announce(self) -> None:
        """From now on this is the flow's only run."""
        # A query that was started again belongs to the run that it was started for. Were it announced once more, a run
        # that has taken over meanwhile would be ended by the one that it replaced.
        self.superseded()
        if not self._announced:
            self.command("run")

    def command(self, verb: str, epoch: int = -1) -> None:
        value = Command(verb, self.run, epoch, str(self.config)).encode()
        self._write(TopicPartition(self._journal, COMMANDS), None, value)

    def tell(self, events: list[dict[str, Any]]) -> None:
        """News of the planner itself, as a task that is none."""
        report = Report(self.run, -1, -1, 0, int(time.time() * 1000), {}, events)
        self._write(TopicPartition(self._journal, REPORTS), None, report.encode())

    def _write(self, place: TopicPartition, key: bytes | None, value: bytes) -> None:
        write(self.target, place, [(int(time.time() * 1000), key, value)], PATIENT)

    # What there is

    def superseded(self) -> bool:
        """Whether another run of this flow was announced after this one."""
        for record in self._commands.read():
            command = Command.decode(record.value)
            if command is None or command.flow != str(self.config):
                continue
            if command.verb == "run":
                self._current = command.run
                self._announced = self._announced or command.run == self.run
            elif command.verb == "stop" and command.run == self.run:
                self.stopped = True
        return self._current != self.run

    def discover(self) -> list[Claim]:
        """Every partition that can be relayed now; missing remote topics and partitions are made first."""
        upstream = self.source.metadata(None).topics
        chosen = {name: info for name, info in upstream.items() if self._selection.selects(name)}
        round_trips: set[str] = set()
        for name, info in chosen.items():
            if info.error:
                self._warn(name, f"topic {name} of {self.config.flow.source} is left out: {codes.name(info.error)}")
            elif reason := self._loops.refused(name):
                round_trips.add(name)
                self._warn(name, reason)
        chosen = {name: info for name, info in chosen.items() if not info.error and name not in round_trips}
        remote = {name: self._selection.remote_name(name) for name in chosen}
        downstream = self.target.metadata(sorted(set(remote.values()))).topics if chosen else {}
        if made := self._remote_topics.make(chosen, remote, downstream):
            downstream |= appear(self.target, {remote[name]: len(chosen[name].leaders) for name in made}).topics
        claims = []
        for name in sorted(chosen):
            there = downstream.get(remote[name])
            count = len(there.leaders) if there is not None and not there.error else 0
            claims += [
                Claim(TopicPartition(name, partition), TopicPartition(remote[name], partition), chosen[name].id)
                for partition in sorted(chosen[name].leaders)
                if partition < count
            ]
        return claims

    def _warn(self, about: str, text: str | None) -> None:
        """Once, until something else is to be said of the same; without a text, until it is so again.

        `about` is a topic that is left out, or has partitions that are; several words: something else.
        """
        if text is None:
            self._said.pop(about, None)
        elif self._said.get(about) != text:
            self._said[about] = text
            self.warnings.append(text)
            if " " in about:
                self.harmless.add(text)

    # An epoch

    def plan(self, tasks: int, *, once: bool, claims: list[Claim] | None = None) -> Plan:
        claims = self.discover() if claims is None else claims
        self._positions.read()
        claims = [self._positions.known(self._with_old_id(claim)) for claim in claims]
        if once:
            claims = self._with_ends(claims)
        self.hear()
        by_place = {claim.place: claim for claim in claims}
        groups = assign(list(by_place), tasks, self.loads.rates())
        offsets = source_offsets.offsets_topic(self.config).name
        info = self.target.metadata([offsets, self._journal]).topics.get(offsets)
        if info is None or info.error:
            raise RelayError(f"cluster {self.config.flow.target}: topic {offsets} is not there")
        place = TopicPartition(self._journal, COMMANDS)
        ends, failed = self.target.list_offsets([place], LATEST)
        if failed:
            raise RefusedError(
                f"cluster {self.config.flow.target}: {place}: {codes.name(failed[place])}", failed[place]
            )
        return Plan(
            [[by_place[place] for place in group] for group in groups],
            self._producer_ids(len(info.leaders), offsets),
            ends[place],
            len(info.leaders),
        )

    def _with_old_id(self, claim: Claim) -> Claim:
        """The id that the cursor is about: recovery compares it with the topic's own."""
        cursor = self._positions.cursors.get(claim.place)
        try:
            return replace(claim, topic_id=uuid.UUID(cursor.topic_id) if cursor else NO_ID)
        except ValueError:
            return replace(claim, topic_id=NO_ID)

    def _with_ends(self, claims: list[Claim]) -> list[Claim]:
        job = Job(self.config.flow, self.config, (), ())
        isolation = int(job.rules.read_committed)
        deadline = time.monotonic() + _APPEARS
        while True:
            ends, failed = self.source.list_offsets([claim.place for claim in claims], LATEST, isolation)
            if not failed:
                return [replace(claim, until=ends[claim.place]) for claim in claims]
            if time.monotonic() > deadline:
                place, code = next(iter(failed.items()))
                raise RefusedError(f"cluster {self.config.flow.source}: {place}: {codes.name(code)}", code)
            time.sleep(0.2)
            self.source.metadata(sorted({claim.place.topic for claim in claims}))

    def _producer_ids(self, partitions: int, topic: str) -> tuple[int, ...]:
        """The flow's own producer id, got once and remembered before it is used: by it our records are known again."""
        if not self._positions.producers.ids:
            flow = self.config.flow
            key = source_offsets.producer_key(flow.source, flow.target)
            place = TopicPartition(topic, source_offsets.partition_for(key, partitions))
            mine = self.target.init_producer()
            self._write(place, key, source_offsets.Producers((mine,)).encode())
            self._positions.read()
            if self._positions.producers.ids[-1:] != (mine,):  # another run was faster: what it uses is what counts
                self._write(place, key, self._positions.producers.encode())
        return self._positions.producers.ids

    def hear(self) -> None:
        """What tasks reported since: how much each partition carries."""
        for record in self._reports.read():
            if (report := Report.decode(record.value)) is not None and report.run == self.run:
                self.loads.add(report)

    def lopsided(self, groups: list[list[TopicPartition]]) -> bool:
        return lopsided(groups, self.loads.rates())
