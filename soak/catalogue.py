"""The class of each kind of fault."""

from soak import broker_faults, link_faults, process_faults, topic_faults
from soak.fault import Fault

FAULTS: dict[str, type[Fault]] = {
    "broker killed": broker_faults.BrokerKilled,
    "broker suspended": broker_faults.BrokerSuspended,
    "two brokers killed": broker_faults.TwoBrokersKilled,
    "rolling restart": broker_faults.RollingRestart,
    "disk full": broker_faults.DiskFull,
    "disk read-only": broker_faults.DiskReadOnly,
    "leaders moved": topic_faults.LeadersMoved,
    "partition reassigned": topic_faults.PartitionReassigned,
    "partitions added": topic_faults.PartitionsAdded,
    "burst of records": topic_faults.Burst,
    "link cut": link_faults.LinkCut,
    "link lossy": link_faults.LinkLossy,
    "link slow": link_faults.LinkSlow,
    "connections reset": link_faults.ConnectionsReset,
    "link stalled": link_faults.LinkStalled,
    "responses lost": link_faults.ResponsesLost,
    "connections refused": link_faults.ConnectionsRefused,
    "driver killed": process_faults.DriverKilled,
    "JVM killed": process_faults.JvmKilled,
    "worker killed": process_faults.WorkerKilled,
    "driver suspended": process_faults.DriverSuspended,
    "JVM suspended": process_faults.JvmSuspended,
    "worker suspended": process_faults.WorkerSuspended,
    "all processes suspended": process_faults.AllSuspended,
    "SIGTERM and restart": process_faults.Terminated,
    "second instance": process_faults.SecondInstance,
    "password changed": process_faults.PasswordChanged,
    "clock of twinlog stepped": process_faults.TwinlogClock,
    "clock of the producers stepped": process_faults.ProducerClock,
}
