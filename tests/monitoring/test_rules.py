"""The Prometheus rules, tested with promtool."""

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.monitoring.conftest import ROOT, RULES, tool
from twinlog.metrics.exposition import SECTIONS

TESTS = RULES.with_name("twinlog-rules-test.yml")
EXAMPLE = RULES.with_name("prometheus.yml")


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run(
        [tool("promtool"), *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def test_promtool_accepts_the_files() -> None:
    promtool("check", "rules", "--lint-fatal", RULES)
    promtool("check", "config", EXAMPLE)


def test_alerts() -> None:
    assert "SUCCESS" in promtool("test", "rules", TESTS)


def test_every_alert_has_a_test() -> None:
    text = TESTS.read_text()
    assert [name for name in alerts() if f'alertname="{name}", alertstate="firing"' not in text] == []


def test_every_alert_has_a_severity_and_a_remedy() -> None:
    for name, rule in alerts().items():
        assert rule["labels"]["severity"] in {"critical", "warning"}, name
        assert set(rule["annotations"]) == {"summary", "description"}, name
        remedy = rule["annotations"]["description"]
        assert re.search(
            r"twinlog (status|doctor|why|run)\b|/connectors/|scrape configuration|Write permission", remedy
        ), name


def test_the_readme_lists_all_alerts() -> None:
    readme = (ROOT / "monitoring" / "README.md").read_text()
    listed = re.findall(r"^\| (Twinlog\w+) \| (\w+) \|", readme, re.MULTILINE)
    assert listed == [(name, rule["labels"]["severity"]) for name, rule in alerts().items()]


def test_only_existing_metrics_are_queried() -> None:
    names = {metric.name for section in SECTIONS for metric in section.metrics}
    queried = set(re.findall(r"\btwinlog_\w+", " ".join(str(rule["expr"]) for rule in alerts().values())))
    recorded = {"twinlog_topic_records", "twinlog_topic_bytes"}  # between the colons of recording rules
    assert queried - names - recorded == set()
