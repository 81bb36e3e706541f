"""The Connect worker file: the cluster of its topics, and the address of its API."""

import ssl
from pathlib import Path

import pytest

from lab.certificates import PASSWORD, Authority
from twinlog.config.values import Origin, Value
from twinlog.connect.worker_file import Listening, listening, read_worker, tls_of
from twinlog.errors import ConfigError

FILE = """bootstrap.servers=kafka-target-0:9092,kafka-target-1:9092
group.id=connect-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
internal.key.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
config.storage.topic=connect-configs
status.storage.topic=connect-status
rest.port=8083
"""


def values(**texts: str) -> dict[str, Value]:
    named = {key.replace("_", "."): text for key, text in texts.items()}
    return {key: Value(key, text, Origin("file", "w", 1, key)) for key, text in named.items()}


def test_a_typical_file(tmp_path: Path) -> None:
    file = tmp_path / "connect-distributed.properties"
    file.write_text(FILE)
    worker = read_worker(file)
    assert worker.settings.config_storage_topic == "connect-configs"
    assert worker.settings.offset_storage_replication_factor == 1
    assert worker.client["bootstrap.servers"] == ("kafka-target-0:9092", "kafka-target-1:9092")
    assert listening(worker.values, None, None) == Listening("127.0.0.1", 8083, advertised="127.0.0.1:8083")


def test_the_option_overrides_the_file(tmp_path: Path) -> None:
    file = tmp_path / "w.properties"
    file.write_text(FILE)
    assert read_worker(file, "other:1").client["bootstrap.servers"] == ("other:1",)


def test_without_a_file() -> None:
    worker = read_worker(None, "b:1")
    assert worker.settings.group_id == "connect-cluster"
    assert worker.settings.config_storage_replication_factor == -1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("group.id=g\n", "bootstrap.servers is missing"),
        ("clusters=a,b\nbootstrap.servers=b:1\n", "use twinlog run for it"),
        (FILE.replace("9092", "x"), "is not host:port"),
        (FILE.replace("config.storage.topic=connect-configs", ""), "config.storage.topic is missing"),
    ],
)
def test_errors(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "w.properties"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_worker(file)


@pytest.mark.parametrize(
    ("texts", "host", "port", "where"),
    [
        ({}, None, None, ("127.0.0.1", 8083, False)),
        ({}, "0.0.0.0", 0, ("0.0.0.0", 0, False)),
        ({"rest_port": "9000"}, None, None, ("127.0.0.1", 9000, False)),
        ({"rest_host_name": "10.0.0.1"}, None, None, ("10.0.0.1", 8083, False)),
        ({"listeners": "http://:8084"}, None, None, ("0.0.0.0", 8084, False)),
        ({"listeners": "http://:8084"}, "127.0.0.1", None, ("127.0.0.1", 8084, False)),
        ({"listeners": "HTTPS://connect.example:8443,http://:1"}, None, 9, ("connect.example", 9, True)),
        ({"listeners": "http://[::1]:8085"}, None, None, ("::1", 8085, False)),
    ],
)
def test_listening_address(
    texts: dict[str, str], host: str | None, port: int | None, where: tuple[str, int, bool]
) -> None:
    found = listening(values(**texts), host, port)
    assert (found.host, found.port, found.secure) == where


def test_advertised_address() -> None:
    texts = {"rest_advertised_host_name": "me.example", "rest_advertised_port": "80"}
    assert listening(values(**texts), None, None).worker_id == "me.example:80"
    assert listening(values(), None, None).worker_id == "127.0.0.1:8083"


@pytest.mark.parametrize("text", ["ftp://x:1", "http://x:port", "http://x:99999"])
def test_an_invalid_listener(text: str) -> None:
    with pytest.raises(ConfigError, match="listeners"):
        listening(values(listeners=text), None, None)


def test_https_requires_a_key() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        tls_of(values(listeners="https://:1"))


@pytest.mark.parametrize("prefix", ["", "listeners.https."])
def test_https_with_a_keystore(tmp_path: Path, prefix: str) -> None:
    """A handshake in memory: the client trusts the CA, and its certificate is requested."""
    authority = Authority(tmp_path)
    files = authority.server(["localhost"])
    texts = {
        "ssl.keystore.location": str(files.keystore),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.location": str(authority.truststore),
        "ssl.truststore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "ssl.truststore.type": "PKCS12",
        "ssl.client.auth": "requested",
    }
    given = {
        f"{prefix}{key}": Value(f"{prefix}{key}", text, Origin("file", "w", 1, key)) for key, text in texts.items()
    }
    context = tls_of(given)
    assert context.verify_mode is ssl.CERT_OPTIONAL
    client = ssl.create_default_context(cafile=str(authority.ca))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = context.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    done: set[str] = set()
    for _ in range(10):
        for name, side in (("client", theirs), ("server", ours)):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            done.add(name)
    assert done == {"client", "server"}
