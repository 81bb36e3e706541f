"""`twinlog run --port`: Connect's API over flows that come from files, to look, to pause and to resume."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from twinlog.config.properties import properties_text
from twinlog.lab.cluster import Cluster
from twinlog.lab.ends import Ends
from twinlog.lab.peer import mirror_properties
from twinlog.lab.ports import free_port
from twinlog.lab.process import guardian
from twinlog.lab.waiting import until

pytestmark = [pytest.mark.broker, pytest.mark.spark]

TWINLOG = Path(sys.executable).with_name("twinlog")
SOURCE = urllib.parse.quote("us->eu.MirrorSourceConnector")


def ask(port: int, method: str, path: str) -> tuple[int, Any]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = answer.read()
            return answer.status, json.loads(content) if content else None
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())
    except OSError:
        return 0, None


def test_a_run_is_seen_paused_and_resumed(us: Cluster, eu: Cluster, topic: str, tmp_path: Path) -> None:
    us.create_topic(topic, partitions=1)
    settings = {"topics": topic, "heartbeats.replication.enabled": "false", "us->eu.tasks.max": "1"}
    file = tmp_path / "mm2.properties"
    file.write_text(properties_text(mirror_properties([us, eu], [(us, eu)], settings)))
    port = free_port()

    def produce(count: int) -> None:
        producer = Producer({**us.librdkafka_properties(), "acks": "all"})
        for number in range(count):
            producer.produce(topic, f"value {number}")
        producer.flush()

    produce(10)
    log = tmp_path / "err"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [TWINLOG, "run", str(file), "--port", str(port), "--log-format", "json"],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            env={**os.environ, "TMPDIR": str(tmp_path)},
            start_new_session=True,
        )
    guardian.hold_process(process.pid)

    def state() -> str:
        code, status = ask(port, "GET", f"/connectors/{SOURCE}/status")
        return str(status["connector"]["state"]) if code == 200 else ""

    try:
        with Ends(eu) as ends:

            def arrived(count: int) -> None:
                until(
                    lambda: ends.total(f"us.{topic}") == count,
                    f"{count} records should arrive",
                    seconds=180,
                    failed=lambda: None if process.poll() is None else "it ended",
                    logs=lambda: f"; it said:\n{log.read_text()}",
                )

            arrived(10)
            assert state() == "RUNNING"
            assert ask(port, "PUT", f"/connectors/{SOURCE}/pause") == (202, None)
            until(lambda: state() == "PAUSED", "it should rest", seconds=60)
            produce(5)
            code, refused = ask(port, "DELETE", f"/connectors/{SOURCE}")
            assert (code, "twinlog serve" in refused["message"]) == (403, True)
            _, offsets = ask(port, "GET", f"/connectors/{SOURCE}/offsets")
            assert offsets["offsets"][0]["offset"] == {"offset": 9}, "it wrote down how far it came before it rested"
            assert ends.total(f"us.{topic}") == 10
            assert ask(port, "PUT", f"/connectors/{SOURCE}/resume") == (202, None)
            arrived(15)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
        said = [json.loads(line) for line in log.read_text().splitlines()]
        assert any(f"http://127.0.0.1:{port}" in line["text"] for line in said)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        guardian.drop_process(process.pid)
