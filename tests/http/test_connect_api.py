"""The format of requests and responses. A worker's behaviour is compared with a real one in tests/connect."""

import http.client
import re
from urllib.parse import quote

import pytest

from tests.http.conftest import Call, RecordingWorker, send
from twinlog.http import app
from twinlog.http.rest_resource import accepts_json, prefers_html
from twinlog.http.server import Server
from twinlog.http.setup import masks

CONFIG = {"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}


def test_encoded_names_may_contain_any_character(call: Call, worker: RecordingWorker) -> None:
    for encoded, name in [
        ("A-%3EB.MirrorSourceConnector", "A->B.MirrorSourceConnector"),
        ("A->B.MirrorSourceConnector", "A->B.MirrorSourceConnector"),
        ("a%20b%3B", "a b;"),
        ("%C3%A9", "é"),
        ("status", "status"),
    ]:
        assert call("PUT", f"/connectors/{encoded}/config", CONFIG).status == 201
        assert call("GET", f"/connectors/{encoded}").json["name"] == name
        assert call("GET", f"/connectors/{encoded}/status").json["name"] == name
        call("PUT", f"/connectors/{encoded}/pause")
        assert worker.calls[-1] == ("pause", name)
        assert call("DELETE", f"/connectors/{encoded}").status == 204
    assert call("GET", "/connectors/a/b").status == 404


def test_created(call: Call, worker: RecordingWorker) -> None:
    answer = call("POST", "/connectors", {"name": " a->b?c ", "config": CONFIG, "initial_state": "stopped"})
    assert answer.status == 201
    assert re.fullmatch(r"http://127.0.0.1:\d+/connectors/a-%3Eb%3Fc", answer.headers["location"])
    assert worker.calls == [("create", "a->b?c", "stopped")]
    assert worker.configs["a->b?c"] == {**CONFIG, "name": "a->b?c"}


def test_numbers_and_booleans_become_strings(call: Call, worker: RecordingWorker) -> None:
    given = {"tasks.max": 2, "enabled": False, "x": 1.5, "big": 12345678901234567890, "gone": None, "text": "1"}
    call("PUT", "/connectors/c/config", given)
    assert worker.configs["c"] == {
        "tasks.max": "2", "enabled": "false", "x": "1.5", "big": "12345678901234567890", "gone": None, "text": "1",
        "name": "c",
    }  # fmt: skip


def test_put_returns_201_for_created_and_200_for_changed(call: Call) -> None:
    assert call("PUT", "/connectors/c/config", CONFIG).status == 201
    again = call("PUT", "/connectors/c/config", CONFIG)
    assert (again.status, again.json["config"]) == (200, {**CONFIG, "name": "c"})


def test_null_in_a_patch_removes_the_key(call: Call) -> None:
    call("PUT", "/connectors/c/config", {**CONFIG, "a": "1", "b": "2"})
    assert call("PATCH", "/connectors/c/config", {"a": None, "d": "4"}).json["config"] == {
        **CONFIG, "b": "2", "d": "4", "name": "c",
    }  # fmt: skip


@pytest.mark.parametrize(("verb", "status"), [("pause", 202), ("resume", 202), ("stop", 204), ("topics/reset", 202)])
def test_actions_have_an_empty_response(call: Call, verb: str, status: int) -> None:
    answer = call("PUT", f"/connectors/c/{verb}")
    assert (answer.status, answer.body) == (status, b"")


@pytest.mark.parametrize(
    ("query", "status", "flags"),
    [
        ("", 204, (False, False)),
        ("?includeTasks=true", 202, (True, False)),
        ("?includeTasks=True&onlyFailed=true&forward=false", 202, (True, True)),
        ("?includeTasks=yes&onlyFailed=", 204, (False, False)),
    ],
)
def test_restart(call: Call, worker: RecordingWorker, query: str, status: int, flags: tuple[bool, bool]) -> None:
    answer = call("POST", f"/connectors/c/restart{query}")
    assert answer.status == status
    assert worker.calls == [("restart", "c", *flags)]
    assert bool(answer.body) == (status == 202)


def test_expanded(call: Call) -> None:
    call("PUT", "/connectors/a/config", CONFIG)
    call("PUT", "/connectors/new/config", CONFIG)
    assert call("GET", "/connectors").json == ["a", "new"]
    both = call("GET", "/connectors?expand=info&expand=status&expand=info&expand=nonsense").json
    assert list(both) == ["a"]
    assert sorted(both["a"]) == ["info", "status"]
    assert call("GET", "/connectors?expand=nonsense").json == {"a": {}, "new": {}}


def test_tasks_have_numbers(call: Call, worker: RecordingWorker) -> None:
    assert call("GET", "/connectors/c/tasks/3/status").json["id"] == 3
    assert call("POST", "/connectors/c/tasks/0/restart").status == 204
    assert worker.calls == [("restart_task", "c", 0)]
    assert call("GET", "/connectors/c/tasks/x/status").status == 404


def test_offsets_reach_the_worker_unchanged(call: Call, worker: RecordingWorker) -> None:
    entries = [{"partition": {"topic": "t", "partition": 0}, "offset": None}]
    assert call("PATCH", "/connectors/c/offsets", {"offsets": entries}).json == {"message": "altered"}
    assert call("DELETE", "/connectors/c/offsets").json == {"message": "reset"}
    assert call("GET", "/connectors/c/offsets").json["offsets"][0]["partition"] == {"topic": "c"}
    assert worker.calls == [("alter_offsets", "c", entries), ("reset_offsets", "c")]


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
def test_unknown_paths_methods_and_media_types(
    call: Call, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = call(method, path, headers=headers)
    assert answer.status == status
    if status != 200:
        phrase = http.client.responses[status]
        assert answer.json == {"error_code": status, "message": f"HTTP {status} {phrase}"}


def test_405_lists_the_allowed_methods(call: Call) -> None:
    allowed = call("POST", "/connectors/c/config").headers["allow"]
    assert set(allowed.replace(" ", "").split(",")) == {"GET", "HEAD", "OPTIONS", "PUT", "PATCH"}
    options = call("OPTIONS", "/connectors/c/config")
    assert (options.status, options.headers["allow"]) == (200, "GET,HEAD,OPTIONS,PATCH,PUT")


def test_a_body_must_be_json(call: Call, worker: RecordingWorker) -> None:
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
def test_browsers_are_recognized_by_the_accept_header(accept: str, html: bool, json: bool) -> None:
    assert prefers_html(accept) == html
    assert accepts_json(accept) == json


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="rabbit";'


def test_secrets_are_masked_and_masked_values_are_restored(call: Call, worker: RecordingWorker) -> None:
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


@pytest.mark.parametrize("name", ["a/b", "a\\b", "100%", "..", "."])
def test_a_name_not_usable_in_a_path_is_rejected_unless_it_exists(
    call: Call, worker: RecordingWorker, name: str
) -> None:
    path = f"/connectors/{quote(name, safe='')}"
    answers = [
        call("POST", "/connectors", {"name": name, "config": CONFIG}), call("PUT", f"{path}/config", CONFIG),
        call("GET", path), call("GET", f"{path}/status"), call("DELETE", path), call("PUT", f"{path}/pause"),
    ]  # fmt: skip
    assert [(each.status, "not usable in a URL path" in each.json["message"]) for each in answers] == [(400, True)] * 6
    assert not worker.configs
    worker.configs[name] = {**CONFIG}  # by a Connect worker, which creates such connectors
    assert call("GET", f"{path}/config").json == CONFIG
    assert call("DELETE", path).status == 204


def test_asterisks_are_never_a_new_password(call: Call, worker: RecordingWorker) -> None:
    key, path = "source.cluster.sasl.jaas.config", "/connectors/c/config"
    new = [
        call("POST", "/connectors", {"name": "c", "config": {**CONFIG, key: "********"}}),
        call("PUT", path, {**CONFIG, key: "********"}),
        call("PUT", path, {**CONFIG, "client.id": "********"}),
    ]
    assert [each.status for each in new] == [400, 400, 400]
    assert new[0].json["message"].startswith(f"{key} = ********: masked value")
    assert not worker.configs
    assert call("PUT", path, {**CONFIG, key: JAAS, "topics": "a"}).status == 201
    for wrong in ({"topics": "********"}, {"target.cluster.ssl.key.password": "********"}):
        assert call("PUT", path, {**CONFIG, key: "********", **wrong}).status == 400
        assert call("PATCH", path, wrong).status == 400
    assert call("PUT", path, {**CONFIG, key: "********"}).status == 200
    assert worker.configs["c"][key] == JAAS
    reference = "${file:/secrets:jaas}"
    assert call("PUT", path, {**CONFIG, key: reference}).status == 200
    assert call("PUT", path, {**CONFIG, key: "********"}).status == 400, "a reference was never masked"


@pytest.mark.parametrize(
    ("setting", "local", "login", "masked"),
    [
        ("auto", True, False, False), ("auto", True, True, False), ("auto", False, True, False),
        ("auto", False, False, True), (" TRUE", True, True, True), ("false", False, False, False),
    ],
)  # fmt: skip
def test_masking_setting(setting: str, local: bool, login: bool, masked: bool) -> None:
    assert masks(setting, local=local, login=login) == masked


def test_without_masking_responses_equal_connects() -> None:
    worker = RecordingWorker()
    given = {**CONFIG, "name": "c", "source.cluster.sasl.jaas.config": JAAS}
    with Server(app.build(worker, mask=False), port=0) as server:
        made = send(server.url, "POST", "/connectors", {"name": "c", "config": given})
        assert made.json["config"] == given
        assert send(server.url, "GET", "/connectors/c/config").json == given
        assert send(server.url, "GET", "/connectors?expand=info").json["c"]["info"]["config"] == given
        assert (
            send(server.url, "PUT", "/connectors/c/config", {**given, "tasks.max": "2"}).json["config"]["tasks.max"]
            == "2"
        )


SECURED = {
    "source.cluster.bootstrap.servers": "us:9093",
    "source.cluster.security.protocol": "SASL_SSL",
    "source.cluster.sasl.mechanism": "PLAIN",
    "source.cluster.sasl.jaas.config": JAAS,
    "source.cluster.ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----",
    "target.cluster.bootstrap.servers": "eu:9093",
    "target.cluster.ssl.key.password": "hare",
}


@pytest.mark.parametrize(
    "change",
    [
        {"source.cluster.bootstrap.servers": "evil:9093"},
        {"source.cluster.security.protocol": "SASL_PLAINTEXT"},
        {"source.cluster.security.protocol": None},
        {"source.cluster.sasl.mechanism": "OAUTHBEARER"},
        {"source.cluster.sasl.oauthbearer.token.endpoint.url": "http://evil/"},
        {"source.cluster.ssl.truststore.certificates": "-----BEGIN EVIL-----"},
        {"source.cluster.ssl.endpoint.identification.algorithm": ""},
        {"source.consumer.bootstrap.servers": "evil:9093"},
        {"consumer.bootstrap.servers": "evil:9093"},
        {"admin.security.protocol": "SASL_PLAINTEXT"},
    ],
)
def test_masked_secrets_are_not_sent_elsewhere(change: dict[str, str | None]) -> None:
    worker = RecordingWorker()
    with Server(app.build(worker, mask=True), port=0) as server:
        path = "/connectors/c/config"
        assert send(server.url, "PUT", path, {**CONFIG, **SECURED}).status == 201
        stored = dict(worker.configs["c"])
        masked = send(server.url, "GET", path).json
        assert masked["source.cluster.sasl.jaas.config"] == "********"
        wanted = {key: text for key, text in {**masked, **change}.items() if text is not None}
        for answer in (send(server.url, "PUT", path, wanted), send(server.url, "PATCH", path, change)):
            assert answer.status == 400
            assert "source.cluster.sasl.jaas.config" in answer.json["message"]
            assert next(iter(change)) in answer.json["message"]
            assert "rabbit" not in answer.json["message"]
        assert worker.configs["c"] == stored
        again = {key: SECURED[key] for key, text in masked.items() if text == "********"}
        assert send(server.url, "PUT", path, {**wanted, **again, **_texts(change)}).status == 200


def _texts(change: dict[str, str | None]) -> dict[str, str]:
    return {key: text for key, text in change.items() if text is not None}


def test_changes_that_do_not_redirect_keep_the_secrets() -> None:
    worker = RecordingWorker()
    with Server(app.build(worker, mask=True), port=0) as server:
        path = "/connectors/c/config"
        assert send(server.url, "PUT", path, {**CONFIG, **SECURED}).status == 201
        masked = send(server.url, "GET", path).json
        assert send(server.url, "PUT", path, {**masked, "topics": "b"}).status == 200
        moved = {**masked, "target.cluster.bootstrap.servers": "new:9093", "target.cluster.ssl.key.password": "hare"}
        assert send(server.url, "PUT", path, moved).status == 200
        assert worker.configs["c"]["source.cluster.sasl.jaas.config"] == JAAS
        moved |= {"target.cluster.bootstrap.servers": "other:9093", "target.cluster.ssl.key.password": "********"}
        refused = send(server.url, "PUT", path, moved)
        assert refused.status == 400
        assert "jaas" not in refused.json["message"]


def test_without_masking_a_patch_may_change_the_address() -> None:
    worker = RecordingWorker()
    with Server(app.build(worker, mask=False), port=0) as server:
        path = "/connectors/c/config"
        assert send(server.url, "PUT", path, {**CONFIG, **SECURED}).status == 201
        change = {"source.cluster.bootstrap.servers": "new:9093"}
        assert send(server.url, "PATCH", path, change).status == 200
        masked = {"source.cluster.bootstrap.servers": "evil:9093", "source.cluster.sasl.jaas.config": "********"}
        assert send(server.url, "PATCH", path, masked).status == 400
