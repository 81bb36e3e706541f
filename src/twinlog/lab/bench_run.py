"""The whole measurement: which cases, in which order, and what is written down."""

import contextlib
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import twinlog
from twinlog import java
from twinlog.lab import jars
from twinlog.lab.bench_contenders import CONTENDERS, TUNED, Contender
from twinlog.lab.bench_copy import LOADS, Copied, copy, fill, topic_of
from twinlog.lab.bench_steady import RATE, Many, Steady, Times, many, steady
from twinlog.lab.bench_table import copied_table, many_table, steady_table, targets, targets_table
from twinlog.lab.bench_trickle import SIZES
from twinlog.lab.broker import ClusterSpec
from twinlog.lab.cluster import Cluster
from twinlog.lab.java_process import SHIPPED
from twinlog.lab.lab import Lab
from twinlog.lab.listeners import PLAINTEXT

# As for production, since small ones would be what is measured.
_BROKER = ("-Xmx1G", "-Xms1G", *SHIPPED)
_SETTINGS = {"num.network.threads": "3", "num.io.threads": "8"}
# Of thousands of partitions each would get the first entry of its index at about the same time, and the page faults of
# that stall a broker on some machines for seconds. Elsewhere it stays as it is: readers look records up by it.
_FOR_MANY = {**_SETTINGS, "log.index.interval.bytes": str(1 << 20)}
_FULL = Times(warm_up=20, latency=60, settle=10, idle=30)
_QUICK = Times(warm_up=2, latency=5, settle=1, idle=3)


@dataclass(frozen=True, slots=True)
class Wanted:
    cases: Sequence[str]  # "many" is the last, if it is one of them
    contenders: Sequence[str]
    records: int | None  # of every load; None: as each load has it
    minutes: float | None  # of latency; None: a minute
    partitions: int
    quick: bool
    verify: bool
    out: Path


class Bench:
    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._contenders = [CONTENDERS[key] for key in wanted.contenders]
        self._times = _QUICK if wanted.quick else _FULL
        if wanted.minutes is not None:
            self._times = replace(self._times, latency=wanted.minutes * 60)
        self._facts = {"began": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **machine()}
        self.copied: list[Copied] = []
        self.steadies: list[Steady] = []
        self.manies: list[Many] = []

    def run(self) -> int:
        with Lab() as lab:
            few = [case for case in self._wanted.cases if case != "many"]
            for cases, settings, suffix in ((few, _SETTINGS, ""), (self._wanted.cases[len(few) :], _FOR_MANY, "-many")):
                if not cases:
                    continue
                doors = (PLAINTEXT, *({LOADS[case].door for case in cases if case in LOADS} - {PLAINTEXT}))
                specs = [
                    ClusterSpec(name=each + suffix, flags=_BROKER, settings=settings, listeners=doors)
                    for each in ("us", "eu")
                ]
                us, eu = lab.clusters(*specs)
                for case in cases:
                    self._case(lab, us, eu, case)
                    self._write()  # what has been measured is kept, whatever comes
                for cluster in (us, eu):
                    lab.discard(cluster)
        self._show()
        return 1 if any(each.equal is False for each in self.copied) else 0

    def _case(self, lab: Lab, us: Cluster, eu: Cluster, case: str) -> None:
        wanted = self._wanted
        if case == "latency":
            # MM2's latency does not come from its settings for throughput: tuned, it is only later.
            self.steadies += [steady(lab, us, eu, c, self._times) for c in self._only(lambda c: c.key != "tuned")]
        elif case == "many":
            for contender in self._only(lambda c: c.ours):
                for count in sorted({max(wanted.partitions // 4, 1), wanted.partitions}):
                    self.manies.append(many(lab, us, eu, contender, count, self._times))
        else:
            load = LOADS[case]
            records = wanted.records or (load.quick_records if wanted.quick else load.records)
            fill(us, load, records)
            for contender in self._contenders:
                self.copied.append(copy(lab, us, eu, load, contender, records, verify=wanted.verify))
            with us.admin() as admin:
                admin.delete_topics([topic_of(load)])

    def _only(self, fits: Callable[[Contender], bool]) -> list[Contender]:
        """Of the chosen ones those that the case is about; all that were chosen, if it is about none of them."""
        return [each for each in self._contenders if fits(each)] or self._contenders

    def _write(self) -> None:
        out = self._wanted.out
        out.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "machine": self._facts,
            "settings": {
                "quick": self._wanted.quick,
                "latency_records_per_second": RATE,
                "latency_record_bytes": SIZES,
                "seconds": asdict(self._times),
                "tuned": TUNED,
            },
            "copied": [asdict(each) for each in self.copied],
            "steady": [asdict(each) for each in self.steadies],
            "many": [asdict(each) for each in self.manies],
            "targets": [asdict(each) for each in targets(self.copied, self.steadies, self.manies)],
        }
        out.write_text(json.dumps(content, indent=2) + "\n")

    def _show(self) -> None:
        parts = []
        if self.copied:
            parts.append(copied_table(self.copied))
        if self.steadies:
            minutes = f"{self._times.latency / 60:.3g} min"
            title = f"{RATE} records/s of {SIZES[0]} to {SIZES[1]} B, for {minutes}; then none at all"
            parts.append(f"{title}\n{steady_table(self.steadies)}")
        if self.manies:
            parts.append(f"many partitions, a record every 4 s for each\n{many_table(self.manies)}")
        if found := targets(self.copied, self.steadies, self.manies):
            parts.append(targets_table(found))
        facts = self._facts
        parts.append(
            f"{facts['cores']} cores ({facts['processor']}), {facts['memory_gigabytes']} GB, brokers included; "
            f"Kafka {facts['kafka']}, Spark {facts['spark']}, Java {facts['java']}, Python {facts['python']}\n"
            f"written to {self._wanted.out}"
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


def bench(wanted: Wanted) -> int:
    return Bench(wanted).run()
