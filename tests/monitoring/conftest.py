"""A real Prometheus that scrapes a sample board every second."""

import json
import shutil
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from lab.ports import HOST, free_port
from lab.process import Process
from lab.waiting import until
from tests.status.samples import made_board, made_report
from twinlog.http.metrics_endpoint import routes
from twinlog.http.server import Server
from twinlog.status.flow_board import FlowBoard

ROOT = Path(__file__).parents[2]
RULES = ROOT / "monitoring" / "prometheus" / "twinlog-rules.yml"
DASHBOARD = ROOT / "monitoring" / "grafana" / "twinlog.json"

_CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: twinlog
    static_configs:
      - targets: ["{target}"]
        labels: {{strimzi_io_kind: KafkaMirrorMaker2, strimzi_io_cluster: my-mm2, namespace: kafka, kubernetes_pod_name: pod-0}}
"""


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"needs {name}, from the Debian package prometheus")
    return path


@dataclass(frozen=True, slots=True)
class Prometheus:
    url: str
    scraped: str  # the URL that it scrapes

    def get(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Raises for invalid PromQL."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def has_scraped(self) -> bool:
        return bool(self.query("count_over_time(up[1m]) > 4"))


class Reports:
    """Adds reports: a record per second in every partition, and problems."""

    def __init__(self, board: FlowBoard) -> None:
        self._board = board
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        step = 8
        while not self._closing.wait(1.0):
            step += 1
            for flow in self._board.flows:
                report = made_report(flow.run, time.time(), 3, 2, step=step, lag=5)
                bad = report.partitions["topic-00000-0"]
                bad |= {"state": "stopped", "error": "it was deleted on the target", "lost": 7}
                for counter in ("duplicates", "foreign", "skipped", "recoveries"):
                    bad[counter] = step
                report.events.append({"time": report.time_ms, "kind": "foreign", "text": "another producer wrote"})
                flow.add(report)


@contextmanager
def scraping(folder: Path, target: str) -> Iterator[Prometheus]:
    """A Prometheus with our rules that has scraped this address (host:port) a few times."""
    config = folder / "prometheus.yml"
    config.write_text(_CONFIG.format(rules=RULES, target=target))
    address = f"{HOST}:{free_port()}"
    process = Process("prometheus", folder / "log")
    process.launch(
        [
            tool("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
            "--log.level=warn",
        ]
    )
    try:
        prometheus = Prometheus(f"http://{address}", f"http://{target}/metrics")
        process.wait_until_up(prometheus.is_ready, 60)
        until(prometheus.has_scraped, "five scrapes", failed=process.exit_report, logs=process.log_excerpt)
        yield prometheus
    finally:
        process.stop()


@pytest.fixture(scope="session")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    tool("prometheus")
    board = made_board(flows=2, lag=5)
    with (
        Server(Starlette(routes=list(routes(board))), port=0) as server,
        Reports(board),
        scraping(tmp_path_factory.mktemp("prometheus"), f"{server.host}:{server.port}") as prometheus,
    ):
        yield prometheus
