"""What others chose reaches no terminal as a command."""

import io
import json
from pathlib import Path

import pytest

from lab.cluster import Cluster
from tests.cli.conftest import commit, settings_file, twinlog
from twinlog.logs import Log
from twinlog.text import visible

HOSTILE = "evil-\x1b[2J\x1b]0;title\x07-\u202egnp.exe-\x9b31m-\u2066x\r"


def test_what_does_something_is_shown_as_an_escape() -> None:
    shown = visible(HOSTILE)
    assert shown == r"evil-\u001b[2J\u001b]0;title\u0007-\u202egnp.exe-\u009b31m-\u2066x\r"
    assert visible("\ud800 \U000e0001") == r"\ud800 \udb40\udc01"


@pytest.mark.parametrize("text", ["", "orders", "a\tb\nc", "مرحبا 🚀 é 5\u00a0MB", "a -> b → c …"])
def test_what_is_only_text_stays(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_log_line_is_text_and_json_keeps_its_meaning(form: str) -> None:
    stream = io.StringIO()
    with Log(form, stream) as log:  # type: ignore[arg-type]
        log.line(f"group {HOSTILE} is left alone", flow="us->eu", topic=HOSTILE)
    line = stream.getvalue()
    assert line.removesuffix("\n").isprintable()
    if form == "json":
        assert json.loads(line)["topic"] == HOSTILE


@pytest.mark.broker
def test_a_group_of_a_real_cluster(tmp_path: Path, us: Cluster, eu: Cluster) -> None:
    group = HOSTILE.rstrip()  # no regular expression's dot is a carriage return
    us.create_topic("escapes", 1)
    commit(us, group, "escapes", 0)
    file = settings_file(tmp_path, us, eu, {"topics": "escapes", "groups": "evil-.*"})
    people, programs = twinlog("plan", file), twinlog("plan", file, "--json")
    assert r"evil-\u001b[2J" in people.stdout
    assert all(line.isprintable() for line in (people.stdout + programs.stdout).splitlines())
    assert group in json.loads(programs.stdout)["flows"][0]["groups"]
