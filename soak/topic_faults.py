"""Changes of topics and partitions that an operator makes while replication runs, and bursts of records."""

from kafka import TopicPartition

from lab.errors import LabError
from soak.arrivals import remote
from soak.fault import Fault
from soak.plan import SOURCE

_MOST_PARTITIONS = 8


class _PartitionFault(Fault):
    """Of a topic of the source, or of its remote topic."""

    def partition(self) -> tuple[str, int]:
        tp = self.planned.pick(sorted(self.stage.traffic.sent))
        return tp if self.planned.kind.side == SOURCE else remote(tp)


class LeadersMoved(_PartitionFault):
    """To another replica, by an election."""

    def begin(self) -> str:
        topic, chosen = self.partition()
        described = self.cluster.partition(topic, chosen)
        replicas = [int(each) for each in described["replica_nodes"]]
        to = next(each for each in replicas[::-1] if each != int(described["leader_id"]))
        self.cluster.move_leader(topic, chosen, to)
        return f"leader of {topic}-{chosen} on {self.cluster.name} moved to broker {to}"


class PartitionReassigned(_PartitionFault):
    """To fewer replicas, and back to three at the end: a broker loses its replica and fetches it again."""

    def begin(self) -> str:
        self._tp = TopicPartition(*self.partition())
        replicas = [int(each) for each in self.cluster.partition(*self._tp)["replica_nodes"]]
        self._assign(kept := replicas[1:])
        return f"{self._tp.topic}-{self._tp.partition} on {self.cluster.name} reassigned to brokers {kept}"

    def end(self) -> None:
        if hasattr(self, "_tp"):
            brokers = [broker.id for broker in self.cluster.brokers]
            first = self.planned.choice % len(brokers)
            self._assign([*brokers[first:], *brokers[:first]])

    def _assign(self, replicas: list[int]) -> None:
        with self.cluster.admin() as admin:
            errors = admin.alter_partition_reassignments({self._tp: replicas})
        if error := next(filter(None, errors.values()), None):
            raise LabError(f"cannot reassign {self._tp}: {error}")


class Burst(Fault):
    """Megabytes per second: a backlog, which Twinlog fetches and produces over several connections."""

    def begin(self) -> str:
        self.stage.traffic.burst = True
        return "burst of large records"

    def end(self) -> None:
        self.stage.traffic.burst = False


class PartitionsAdded(Fault):
    """One more partition of a topic."""

    def begin(self) -> str:
        traffic = self.stage.traffic
        topic = self.planned.pick([topic for topic in traffic.topics if topic.grows])
        count = traffic.partitions[topic.name]
        if count >= _MOST_PARTITIONS:
            raise LabError(f"{topic.name} has {count} partitions already")
        with self.stage.source.admin() as admin:
            (described,) = admin.describe_topics([topic.name])
            if len(described["partitions"]) == count:  # else an earlier request timed out, and was executed
                admin.create_partitions({topic.name: count + 1})
        traffic.add_partition(topic)
        return f"{topic.name} has {count + 1} partitions instead of {count}"
