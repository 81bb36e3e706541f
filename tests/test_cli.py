"""The command `twinlog`, as an operator runs it."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import TWINLOG, call

SEEDS = Path(__file__).parent / "config" / "seeds"


def test_config_show_has_value_and_origin_of_every_setting() -> None:
    run = call("config", "show", SEEDS / "one-way.properties", "--flow", "rdc->ord")
    assert run.returncode == 0
    rows = {line.split()[0]: line.split() for line in run.stdout.splitlines() if line.startswith("  ")}
    assert rows["topics"][1:] == ["one-way.properties:27", "apache-logs,", "DmmAccess"]
    assert rows["offset.lag.max"][1:5] == ["default", "100", "(no", "effect:"]
    assert rows["topics.exclude"][1] == "one-way.properties:56"
    assert rows["topics.exclude"][-2:] == ["(alias:", "topics.blacklist)"]
    assert rows["group.id"][1:] == ["derived", "rdc-mm2", "(from", "rdc->ord)"]
    assert "ord->rdc" not in run.stdout
    # In the report itself, and first: standard error is lost behind a pager.
    assert run.stdout.startswith("problems\n  one-way.properties:35: warning: ")
    assert "one-way.properties:56: note: topics.blacklist is an old name" in run.stdout


def test_defaults_can_be_left_out() -> None:
    run = call("config", "show", SEEDS / "one-way.properties", "--set")
    assert "\n  tasks.max " in run.stdout
    assert "offset.lag.max" not in run.stdout


def test_what_belongs_to_other_classes_is_shown_too(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = us, eu\nus.bootstrap.servers = u:1\neu.bootstrap.servers = e:1\nus->eu.enabled = true\n"
        "us->eu.acme.audit.level = high\n"
    )
    assert "acme.audit.level" in call("config", "show", path).stdout


def test_a_configuration_may_come_through_a_pipe() -> None:
    text = (SEEDS / "one-way.properties").read_text()
    for name in ("-", "/dev/stdin"):
        run = subprocess.run([TWINLOG, "config", "show", name], input=text, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert "rdc->ord: replicates" in run.stdout


def test_config_show_for_scripts() -> None:
    run = call("config", "show", SEEDS / "one-way.properties", "--json")
    shown = json.loads(run.stdout)
    flow = next(flow for flow in shown["flows"] if flow["flow"] == "rdc->ord")
    source = flow["connectors"]["MirrorSourceConnector"]
    assert source["settings"]["topics"] == {
        "value": ["apache-logs", "DmmAccess"],
        "from": {"kind": "file", "file": "one-way.properties", "line": 27, "key": "rdc->ord.topics"},
    }
    assert source["settings"]["tasks.max"]["value"] == 20
    assert source["config"]["source.cluster.bootstrap.servers"]["value"].startswith("node001")
    assert flow["worker"]["config"]["group.id"]["value"] == "rdc-mm2"
    assert shown["problems"]


def test_secrets_are_not_shown() -> None:
    for form in ([], ["--json"]):
        run = call("config", "show", SEEDS / "from-cloud.properties", *form)
        assert "985..." not in run.stdout + run.stderr
        assert "********" in run.stdout


def test_mistakes_end_with_exit_code_2_and_no_stack_trace(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = us, eu\nus.bootstrap.servers = u:1\neu.bootstrap.servers = e:1\ntasks.max = x\noffset.lag.max = y\n"
    )
    run = call("config", "show", path)
    assert run.returncode == 2
    assert run.stdout == ""
    assert [line for line in run.stderr.splitlines() if " error: " in line] == [
        "mm2.properties:4: error: tasks.max = 'x': expected a whole number",
        "mm2.properties:5: error: offset.lag.max = 'y': expected a whole number",
    ]
    assert run.stderr.endswith("twinlog: 2 errors in the configuration\n")


def test_mistakes_for_scripts(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = us, eu\n")
    run = call("config", "show", path, "--json")
    assert run.returncode == 2
    assert {problem["level"] for problem in json.loads(run.stdout)["problems"]} == {"error"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["config", "show", "nowhere.properties"], "twinlog: nowhere.properties: no such file or directory"),
        (["config", "show", SEEDS / "one-way.properties", "--flow", "a->b"], "--flow a->b: no such flow in"),
        (
            ["config", "show", SEEDS / "mirrormaker2.yaml", "--secrets", "nowhere"],
            "--secrets nowhere: directory not found",
        ),
        (["config", "show"], "Missing argument"),
        (["config", "show", ""], "configuration file: empty name; check whether a shell variable is unset"),
        (["sing"], "No such command"),
    ],
)
def test_a_wrong_call_is_one_clear_line(arguments: list[str | Path], said: str) -> None:
    run = call(*arguments)
    assert run.returncode == 2
    assert said in run.stderr
    assert "Traceback" not in run.stderr


def test_a_reader_that_stops_early_is_no_mistake() -> None:
    for form in ("", "--json"):
        line = f"'{TWINLOG}' config show '{SEEDS / 'one-way.properties'}' {form} | head -1"
        run = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False)
        assert (run.returncode, run.stderr) == (0, "")
