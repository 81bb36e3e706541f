"""Runs the cases of a benchmark, prints tables and writes the results."""

import contextlib
import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import twinlog
from bench.far import FAR, FAR_TUNED, LinkUsed, copy_far
from bench.low_rate import SIZES
from bench.replicators import REPLICATORS, TUNED, Replicator
from bench.steady_load import RATE, Many, Steady, Times, many, steady
from bench.tables import copied_table, links_table, many_table, steady_table, targets, targets_table
from bench.throughput import LOADS, Copied, copy, fill, topic_of
from lab import jars
from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.emulated_link import EmulatedLink, open_link
from lab.java_process import SHIPPED
from lab.lab import Lab
from lab.listeners import PLAINTEXT, Listener
from twinlog import java

# Production-sized brokers: small ones would limit the results.
_BROKER = ("-Xmx1G", "-Xms1G", *SHIPPED)
_SETTINGS = {"num.network.threads": "3", "num.io.threads": "8"}
# With thousands of partitions, all indexes would get their first entry at about the same time, and the page faults
# stall a broker for seconds on some machines. The other cases keep the default: fetches look records up by the index.
_FOR_MANY = {**_SETTINGS, "log.index.interval.bytes": str(1 << 20)}
_FULL = Times(warm_up=20, latency=60, settle=10, idle=30)
_QUICK = Times(warm_up=2, latency=5, settle=1, idle=3)


@dataclass(frozen=True, slots=True)
class Options:
    cases: Sequence[str]
    replicators: Sequence[str]
    records: int | None  # None: the default of each load
    minutes: float | None  # of the latency measurement; None: the default
    partitions: int
    tasks: int  # of each replicator in the far cases
    quick: bool
    verify: bool
    out: Path


class Bench:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._replicators = [REPLICATORS[key] for key in options.replicators]
        self._times = _QUICK if options.quick else _FULL
        if options.minutes is not None:
            self._times = replace(self._times, latency=options.minutes * 60)
        self._machine = {"began": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **machine()}
        self.copied: list[Copied] = []
        self.steadies: list[Steady] = []
        self.manies: list[Many] = []
        self.links: list[LinkUsed] = []

    def run(self) -> int:
        cases = self._options.cases
        near = [case for case in cases if case not in FAR and case != "many"]
        with Lab() as lab:
            if far := [case for case in cases if case in FAR]:
                self._run_far(lab, far)
            if near:
                extra = {LOADS[case].listener for case in near if case in LOADS} - {PLAINTEXT}
                self._run_cases(lab, near, _SETTINGS, "", (PLAINTEXT, *extra))
            if "many" in cases:
                self._run_cases(lab, ["many"], _FOR_MANY, "-many")
        self._show()
        return 1 if any(each.equal is False for each in self.copied) else 0

    def _run_cases(
        self,
        lab: Lab,
        cases: Sequence[str],
        settings: Mapping[str, str],
        suffix: str,
        listeners: tuple[Listener, ...] = (PLAINTEXT,),
        link: EmulatedLink | None = None,
    ) -> None:
        """Runs cases that share two clusters."""
        specs = [
            ClusterSpec(name=each + suffix, flags=_BROKER, settings=settings, listeners=listeners)
            for each in ("us", "eu")
        ]
        us, eu = lab.clusters(*specs)
        for case in cases:
            if link is None:
                self._case(lab, us, eu, case)
            else:
                self._far_case(lab, us, eu, case, link)
            self._write()  # after each case, so that a later failure loses nothing
        for cluster in (us, eu):
            lab.discard(cluster)

    def _run_far(self, lab: Lab, cases: Sequence[str]) -> None:
        with open_link() as link:
            print(f"emulated link: {link.kind}", flush=True)
            possible = [case for case in cases if link.loses_packets or not FAR[case].conditions.loss]
            for case in sorted({*cases} - {*possible}):
                print(f"skipped {case}: this link cannot lose packets", flush=True)
            if possible:
                self._run_cases(lab, possible, _SETTINGS, "-far", (PLAINTEXT, link.listener), link)

    def _far_case(self, lab: Lab, us: Cluster, eu: Cluster, case: str, link: EmulatedLink) -> None:
        options, far = self._options, FAR[case]
        records = options.records or (far.load.quick_records if options.quick else far.load.records)
        fill(us, far.load, records)
        # MM2 as shipped has socket buffers for short links.
        for replicator in self._only(lambda r: r.key != "shipped"):
            copied, used = copy_far(
                lab, us, eu, far, link, replicator, records, tasks=options.tasks, verify=options.verify
            )
            self.copied.append(copied)
            self.links.append(used)
        with us.admin() as admin:
            admin.delete_topics([topic_of(far.load)])

    def _case(self, lab: Lab, us: Cluster, eu: Cluster, case: str) -> None:
        options = self._options
        if case == "latency":
            # Tuning for throughput only adds to MM2's latency.
            self.steadies += [steady(lab, us, eu, r, self._times) for r in self._only(lambda r: r.key != "tuned")]
        elif case == "many":
            for replicator in self._only(lambda r: r.key != "shipped"):
                for count in sorted({max(options.partitions // 4, 1), options.partitions}):
                    self.manies.append(many(lab, us, eu, replicator, count, self._times))
        else:
            load = LOADS[case]
            records = options.records or (load.quick_records if options.quick else load.records)
            fill(us, load, records)
            for replicator in self._replicators:
                self.copied.append(copy(lab, us, eu, load, replicator, records, verify=options.verify))
            with us.admin() as admin:
                admin.delete_topics([topic_of(load)])

    def _only(self, relevant: Callable[[Replicator], bool]) -> list[Replicator]:
        """The selected replicators that are relevant to the case, or all selected ones if none is."""
        return [each for each in self._replicators if relevant(each)] or self._replicators

    def _write(self) -> None:
        out = self._options.out
        out.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "machine": self._machine,
            "settings": {
                "quick": self._options.quick,
                "latency_records_per_second": RATE,
                "latency_record_bytes": SIZES,
                "seconds": asdict(self._times),
                "tuned": TUNED,
                "tuned_far": FAR_TUNED,
                "far_tasks": self._options.tasks,
            },
            "copied": [asdict(each) for each in self.copied],
            "steady": [asdict(each) for each in self.steadies],
            "many": [asdict(each) for each in self.manies],
            "links": [asdict(each) for each in self.links],
            "targets": [asdict(each) for each in targets(self.copied, self.steadies, self.manies)],
        }
        out.write_text(json.dumps(content, indent=2) + "\n")

    def _show(self) -> None:
        parts = []
        if self.copied:
            parts.append(copied_table(self.copied))
        if self.links:
            parts.append(links_table(self.links))
        if self.steadies:
            minutes = f"{self._times.latency / 60:.3g} min"
            title = f"{RATE} records/s of {SIZES[0]} to {SIZES[1]} B for {minutes}, then idle"
            parts.append(f"{title}\n{steady_table(self.steadies)}")
        if self.manies:
            parts.append(f"many partitions, one record per partition every 4 s\n{many_table(self.manies)}")
        if found := targets(self.copied, self.steadies, self.manies):
            parts.append(targets_table(found))
        host = self._machine
        parts.append(
            f"{host['cores']} cores ({host['processor']}), {host['memory_gigabytes']} GB, shared with the "
            f"brokers; Kafka {host['kafka']}, Spark {host['spark']}, Java {host['java']}, "
            f"Python {host['python']}\n"
            f"results written to {self._options.out}"
        )
        print("\n" + "\n\n".join(parts), flush=True)


def machine() -> dict[str, Any]:
    memory = 0.0
    with contextlib.suppress(OSError, ValueError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gigabytes": round(memory, 1),
        "load_before": [round(each, 2) for each in os.getloadavg()],
        "python": platform.python_version(),
        "java": java.find().major,
        "kafka": jars.NEWEST,
        "spark": version("pyspark"),
        "twinlog": twinlog.__version__,
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
