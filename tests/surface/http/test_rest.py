"""The shape of requests and answers. What a worker does with them is compared with a real one in tests/connect."""

import http.client
import re

import pytest
from tests.surface.http.conftest import Call, Remembers

from twinlog.surface.http.resource import prefers_html, takes_json

CONFIG = {"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}


def test_a_name_may_hold_anything_once_it_is_encoded(call: Call, worker: Remembers) -> None:
    for encoded, name in [
        ("A-%3EB.MirrorSourceConnector", "A->B.MirrorSourceConnector"),
        ("A->B.MirrorSourceConnector", "A->B.MirrorSourceConnector"),
        ("a%2Fb", "a/b"),
        ("a%20b%25", "a b%"),
        ("%C3%A9", "é"),
        ("status", "status"),
    ]:
        assert call("PUT", f"/connectors/{encoded}/config", CONFIG).status == 201
        assert call("GET", f"/connectors/{encoded}").json["name"] == name
        assert call("GET", f"/connectors/{encoded}/status").json["name"] == name
        call("PUT", f"/connectors/{encoded}/pause")
        assert worker.asked[-1] == ("pause", name)
        assert call("DELETE", f"/connectors/{encoded}").status == 204
    assert call("GET", "/connectors/a/b").status == 404


def test_created(call: Call, worker: Remembers) -> None:
    answer = call("POST", "/connectors", {"name": " a->b/c ", "config": CONFIG, "initial_state": "stopped"})
    assert answer.status == 201
    assert re.fullmatch(r"http://127.0.0.1:\d+/connectors/a-%3Eb%2Fc", answer.headers["location"])
    assert worker.asked == [("create", "a->b/c", "stopped")]
    assert worker.configs["a->b/c"] == {**CONFIG, "name": "a->b/c"}


def test_numbers_and_booleans_in_a_configuration_are_texts(call: Call, worker: Remembers) -> None:
    given = {"tasks.max": 2, "enabled": False, "x": 1.5, "big": 12345678901234567890, "gone": None, "text": "1"}
    call("PUT", "/connectors/c/config", given)
    assert worker.configs["c"] == {
        "tasks.max": "2", "enabled": "false", "x": "1.5", "big": "12345678901234567890", "gone": None, "text": "1",
        "name": "c",
    }  # fmt: skip


def test_put_tells_made_from_changed(call: Call) -> None:
    assert call("PUT", "/connectors/c/config", CONFIG).status == 201
    again = call("PUT", "/connectors/c/config", CONFIG)
    assert (again.status, again.json["config"]) == (200, {**CONFIG, "name": "c"})


def test_a_patch_takes_away_what_is_null(call: Call) -> None:
    call("PUT", "/connectors/c/config", {**CONFIG, "a": "1", "b": "2"})
    assert call("PATCH", "/connectors/c/config", {"a": None, "d": "4"}).json["config"] == {
        **CONFIG, "b": "2", "d": "4", "name": "c",
    }  # fmt: skip


@pytest.mark.parametrize(("verb", "status"), [("pause", 202), ("resume", 202), ("stop", 204), ("topics/reset", 202)])
def test_done_with_an_empty_answer(call: Call, verb: str, status: int) -> None:
    answer = call("PUT", f"/connectors/c/{verb}")
    assert (answer.status, answer.body) == (status, b"")


@pytest.mark.parametrize(
    ("query", "status", "asked"),
    [
        ("", 204, (False, False)),
        ("?includeTasks=true", 202, (True, False)),
        ("?includeTasks=True&onlyFailed=true&forward=false", 202, (True, True)),
        ("?includeTasks=yes&onlyFailed=", 204, (False, False)),
    ],
)
def test_restart(call: Call, worker: Remembers, query: str, status: int, asked: tuple[bool, bool]) -> None:
    answer = call("POST", f"/connectors/c/restart{query}")
    assert answer.status == status
    assert worker.asked == [("restart", "c", *asked)]
    assert bool(answer.body) == (status == 202)


def test_expanded(call: Call) -> None:
    call("PUT", "/connectors/a/config", CONFIG)
    call("PUT", "/connectors/new/config", CONFIG)
    assert call("GET", "/connectors").json == ["a", "new"]
    both = call("GET", "/connectors?expand=info&expand=status&expand=info&expand=nonsense").json
    assert list(both) == ["a"]
    assert sorted(both["a"]) == ["info", "status"]
    assert call("GET", "/connectors?expand=nonsense").json == {"a": {}, "new": {}}


def test_tasks_have_numbers(call: Call, worker: Remembers) -> None:
    assert call("GET", "/connectors/c/tasks/3/status").json["id"] == 3
    assert call("POST", "/connectors/c/tasks/0/restart").status == 204
    assert worker.asked == [("restart_task", "c", 0)]
    assert call("GET", "/connectors/c/tasks/x/status").status == 404


def test_offsets_reach_the_worker_as_they_stood(call: Call, worker: Remembers) -> None:
    entries = [{"partition": {"topic": "t", "partition": 0}, "offset": None}]
    assert call("PATCH", "/connectors/c/offsets", {"offsets": entries}).json == {"message": "altered"}
    assert call("DELETE", "/connectors/c/offsets").json == {"message": "reset"}
    assert call("GET", "/connectors/c/offsets").json["offsets"][0]["partition"] == {"topic": "c"}
    assert worker.asked == [("alter_offsets", "c", entries), ("reset_offsets", "c")]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/nowhere", {}, 404),
        ("POST", "/connectors/c/config", {}, 405),
        ("DELETE", "/connectors", {}, 405),
        ("GET", "/connectors", {"Accept": "text/html"}, 406),
        ("GET", "/connectors", {"Accept": "application/xml, text/html;q=0.5"}, 406),
        ("GET", "/connectors", {"Accept": "text/html, application/json"}, 200),
        ("GET", "/connectors/", {}, 200),
        ("HEAD", "/connectors", {}, 200),
    ],
)
def test_what_is_not_understood(call: Call, method: str, path: str, headers: dict[str, str], status: int) -> None:
    answer = call(method, path, headers=headers)
    assert answer.status == status
    if status != 200:
        phrase = http.client.responses[status]
        assert answer.json == {"error_code": status, "message": f"HTTP {status} {phrase}"}


def test_a_method_that_there_is_not_is_told_which_there_are(call: Call) -> None:
    allowed = call("POST", "/connectors/c/config").headers["allow"]
    assert set(allowed.replace(" ", "").split(",")) == {"GET", "HEAD", "OPTIONS", "PUT", "PATCH"}
    options = call("OPTIONS", "/connectors/c/config")
    assert (options.status, options.headers["allow"]) == (200, "GET,HEAD,OPTIONS,PATCH,PUT")


def test_a_body_must_be_json(call: Call, worker: Remembers) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert call("PUT", "/connectors/c/config", b"a=b", headers=form).status == 415
    assert call("PUT", "/connectors/c/pause", headers=form).status == 415
    assert call("PUT", "/connectors/c/config").status == 500
    for nothing in (b"{", b"", b"null", b"NaN", b"{} x"):
        assert call("PUT", "/connectors/c/config", nothing).json["error_code"] == 500
    assert call("PUT", "/connectors/c/config", ["a"]).status == 500
    assert call("PUT", "/connectors/c/config", {"a": {"b": 1}}).status == 500
    assert call("POST", "/connectors", {"nome": "c"}).status == 500
    deep = b"[" * 100_000
    assert call("PUT", "/connectors/c/config", deep).status == 500
    assert not worker.configs


def test_names_must_agree(call: Call) -> None:
    answer = call("PUT", "/connectors/c/config", {**CONFIG, "name": "d"})
    assert answer.status == 400
    assert "(d)" in answer.json["message"]
    assert "(c)" in answer.json["message"]


def test_health_has_its_own_status(call: Call) -> None:
    assert (call("GET", "/health").status, call("GET", "/health").json["status"]) == (503, "starting")


@pytest.mark.parametrize(
    ("accept", "html", "json"),
    [
        ("", False, True),
        ("*/*", False, True),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", True, True),
        ("application/json", False, True),
        ("application/json, text/html", False, True),
        ("text/html", True, False),
    ],
)
def test_browsers_are_told_from_programs(accept: str, html: bool, json: bool) -> None:
    assert prefers_html(accept) == html
    assert takes_json(accept) == json


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="rabbit";'


def test_secrets_are_in_no_answer_and_survive_being_put_back(call: Call, worker: Remembers) -> None:
    key, path = "source.cluster.sasl.jaas.config", "/connectors/c/config"
    given = {**CONFIG, key: JAAS, "target.cluster.ssl.key.password": "${file:/secrets:key}", "tasks.max": "1"}
    answers = [call("POST", "/connectors", {"name": "c", "config": given}), call("PUT", path, given)]
    shown = call("GET", path).json
    assert shown[key] == "********"
    assert shown["target.cluster.ssl.key.password"] == "${file:/secrets:key}"
    answers += [call("PUT", path, {**shown, "tasks.max": "2"}), call("PATCH", path, {key: shown[key]})]
    assert (worker.configs["c"][key], worker.configs["c"]["tasks.max"]) == (JAAS, "2")
    answers += [call("GET", each) for each in (path, "/connectors/c", "/connectors?expand=info", "/connectors/c/tasks")]
    assert not [answer for answer in answers if answer.status >= 300 or b"rabbit" in answer.body]
    assert call("PUT", path, {**shown, key: "changed password=x"}).status == 200
    assert worker.configs["c"][key] == "changed password=x"
