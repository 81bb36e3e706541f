"""The rules for Prometheus, by Prometheus's own tool."""

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml
from tests.monitoring.conftest import ROOT, RULES, tool

from twinlog.surface.metrics.exposition import SECTIONS

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


def test_promtool_finds_nothing_wrong() -> None:
    promtool("check", "rules", "--lint-fatal", RULES)
    promtool("check", "config", EXAMPLE)


def test_each_alert_fires_when_it_should_and_only_then() -> None:
    assert "SUCCESS" in promtool("test", "rules", TESTS)


def test_no_alert_without_a_test() -> None:
    text = TESTS.read_text()
    assert [name for name in alerts() if f'alertname="{name}", alertstate="firing"' not in text] == []


def test_each_alert_says_how_bad_it_is_and_what_to_do() -> None:
    for name, rule in alerts().items():
        assert rule["labels"]["severity"] in {"critical", "warning"}, name
        assert set(rule["annotations"]) == {"summary", "description"}, name
        said = rule["annotations"]["description"]
        assert re.search(r"twinlog (status|doctor|why|run)\b|/connectors/|scrape configuration|right to write", said), (
            name
        )


def test_the_readme_lists_the_alerts_as_they_are() -> None:
    readme = (ROOT / "monitoring" / "README.md").read_text()
    listed = re.findall(r"^\| (Twinlog\w+) \| (\w+) \|", readme, re.MULTILINE)
    assert listed == [(name, rule["labels"]["severity"]) for name, rule in alerts().items()]


def test_only_metrics_that_exist_are_asked_for() -> None:
    names = {metric.name for section in SECTIONS for metric in section.metrics}
    asked = set(re.findall(r"\btwinlog_\w+", " ".join(str(rule["expr"]) for rule in alerts().values())))
    recorded = {"twinlog_topic_records", "twinlog_topic_bytes"}  # between the colons of what is recorded
    assert asked - names - recorded == set()
