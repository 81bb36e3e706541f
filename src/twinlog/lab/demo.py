"""`make demo`: two real clusters, a stream of access-log lines, and what Twinlog can do with an MM2 file today.

The relay is not built yet, so the records are moved by the peer, the real MM2. What is Twinlog's own here: the
clusters, the reading of the file, and the proof at the end.
"""

import itertools
import sys
import threading
import time
from pathlib import Path

from kafka import KafkaProducer

from twinlog.config import load
from twinlog.config.properties import properties_text
from twinlog.errors import TwinlogError
from twinlog.lab.cluster import Cluster
from twinlog.lab.compare import compare
from twinlog.lab.ends import Ends
from twinlog.lab.lab import Lab
from twinlog.lab.peer import mirror_properties
from twinlog.lab.traffic import access_log

TOPIC = "access-logs"
RATE = 300  # records a second
SECONDS = 30
PATIENCE = 90  # more seconds, in which all must have arrived
FILE = Path("build/demo/mm2.properties")


def demo() -> int:
    """The exit code: 0 if both logs are equal in the end."""
    with Lab() as lab:
        us, eu = lab.clusters("us", "eu")
        for cluster in (us, eu):
            print(f"cluster {cluster.name}: Kafka {cluster.spec.line} at {cluster.bootstrap()}")
        us.create_topic(TOPIC, partitions=3)
        properties = mirror_properties([us, eu], [(us, eu)], {"us->eu.topics": TOPIC, "tasks.max": "2"})
        show_config(FILE, properties)
        published = Published(us)
        try:
            print("\nstarting MirrorMaker 2, which moves the records until Twinlog's relay is built ...")
            lab.mirror_maker(properties)
            watch(us, eu, published)
        finally:
            published.stop()
        return prove(us, eu)


def show_config(path: Path, properties: dict[str, str]) -> None:
    """What Twinlog reads in the file that MM2 is given; it stays there to be looked at."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(properties_text(properties))
    config = load([path])
    print(f"\nwhat Twinlog reads in the file for MM2 (all of it: .venv/bin/twinlog config show {path}):")
    for flow in config.flows:
        if flow.replicates and flow.source:
            settings, offsets = flow.source.settings, flow.worker.settings.offset_storage_topic
            print(f"  {flow.flow}: topics {', '.join(settings.topics)}; without {', '.join(settings.topics_exclude)}")
            print(f"  {' ' * len(str(flow.flow))}  positions in {offsets} on {flow.flow.target}")
        else:
            print(f"  {flow.flow}: heartbeats only")


class Published(threading.Thread):
    """Publishes access-log lines at a steady rate until stopped."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self._producer = KafkaProducer(bootstrap_servers=cluster.bootstrap().split(","), linger_ms=20)
        self._done = threading.Event()
        self.start()

    def run(self) -> None:
        started = time.monotonic()
        for number, (visitor, line) in enumerate(access_log()):
            self._producer.send(TOPIC, key=visitor.encode(), value=line.encode())
            ahead = number / RATE - (time.monotonic() - started)
            if self._done.wait(max(ahead, 0)) if ahead > 0.02 else self._done.is_set():
                break
        self._producer.close()

    def stop(self) -> None:
        self._done.set()
        self.join()


def watch(us: Cluster, eu: Cluster, published: Published) -> None:
    """A line a second (on a terminal: one line that moves) until the time is up and eu has all of us."""
    live = sys.stdout.isatty()
    print(f"\n  time   {TOPIC} on us   us.{TOPIC} on eu   behind   records/s")
    started = time.monotonic()
    before = (started, 0)
    with Ends(us) as source, Ends(eu) as target:
        for tick in itertools.count(1):
            time.sleep(max(0.0, started + tick - time.monotonic()))
            last = not published.is_alive()
            there, here = target.total(f"us.{TOPIC}"), source.total(TOPIC)  # in this order, or eu may seem ahead
            now = time.monotonic()
            rate = max(0, there - before[1]) / (now - before[0])
            before = (now, there)
            done = last and here == there
            text = f"{now - started:4.0f} s   {here:>17,}   {there:>20,}   {here - there:>6,}   {rate:>9,.0f}"
            if live:
                print("\r\033[K" + text, end="\n" if done else "", flush=True)
            elif done or tick % 5 == 0:
                print(text, flush=True)
            if done:
                return
            if now - started > SECONDS:
                published.stop()
            if now - started > SECONDS + PATIENCE:
                print(f"\ngiving up: after {PATIENCE} s more, {here - there:,} records are still on the way")
                return


def prove(us: Cluster, eu: Cluster) -> int:
    print("\ncomparing both logs, record by record ...")
    outcome = compare(us.client_properties(), TOPIC, eu.client_properties(), f"us.{TOPIC}")
    for difference in outcome.differences:
        print(f"  differs: {difference}")
    verdict = "not equal" if outcome.differences else "equal in key, value, headers, timestamp and order"
    print(f"{outcome.records:,} records: {verdict}")
    return 1 if outcome.differences else 0


def main() -> int:
    try:
        return demo()
    except TwinlogError as error:
        print(f"twinlog: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nstopped; the clusters are gone")
        return 130


if __name__ == "__main__":
    sys.exit(main())
