"""AWS_MSK_IAM payloads, checked by another implementation and by a fake broker that verifies the signature."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kafka.net.sasl.msk import AwsMskIamClient
from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeResponse

from tests.kafka.fake_broker import VERSIONS, Broker
from tests.security.aws import FakeAws, assumed
from tests.security.driver import client
from twinlog.config.flows import Client as ClientConfig
from twinlog.errors import AuthenticationError, ConfigError
from twinlog.inspect.doctor.probe import probe
from twinlog.kafka.blocking_connection import connect
from twinlog.security import msk_iam
from twinlog.security.aws_sts import Credentials
from twinlog.security.msk_iam import MskIam, payload, region_of
from twinlog.security.sasl import login
from twinlog.text import MASK

HOST = "b-1.demo.a1b2c3.c2.kafka.eu-west-1.amazonaws.com"
MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
ARN = "arn:aws:iam::1:role/mirror"


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeAws]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    fake = FakeAws()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", fake.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    msk_iam._cache.cache_clear()
    yield fake
    fake.close()
    msk_iam._cache.cache_clear()


def settings(options: str = "", **more: str) -> ClientConfig:
    return client(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "AWS_MSK_IAM",
            "sasl.jaas.config": f"{MODULE} required {options};",
            "sasl.client.callback.handler.class": HANDLER,
            **more,
        }
    )


@pytest.mark.parametrize("token", ["", "a/token+with==signs&é"])
def test_the_payload_is_that_of_another_implementation(token: str) -> None:
    theirs = AwsMskIamClient(HOST, "AKID", "secret", "eu-west-1", token or None)
    now = datetime.strptime(theirs.timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    ours = json.loads(payload(HOST, "eu-west-1", Credentials("AKID", "secret", token), now))
    expected = json.loads(theirs.first_message())
    assert ours.pop("user-agent").startswith("twinlog/")
    assert expected.pop("user-agent") == "kafka-python"
    assert ours == expected


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "eu-west-1"),
        ("boot-x.c1.kafka-serverless.ap-southeast-2.amazonaws.com", "ap-southeast-2"),
        ("b-3.demo-east-1.q.c3.kafka.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("b-1-public.x.y.kafka.cn-northwest-1.amazonaws.com.cn", "cn-northwest-1"),
        ("BROKER.US-EAST-2.acme.example", "us-east-2"),
    ],
)
def test_the_region_of_a_broker(host: str, region: str) -> None:
    assert region_of(host) == region


def test_the_region_of_a_name_of_your_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no AWS region in the name of broker kafka\.acme\.example; set AWS_REGION"):
        region_of("kafka.acme.example")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/config").write_text("[default]\nregion = eu-south-1\n")
    assert region_of("kafka.acme.example") == "eu-south-1"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert region_of("kafka.acme.example") == "us-east-1"
    assert region_of(HOST) == "eu-west-1"


@pytest.mark.parametrize("prefix", ["", "com.acme.shaded."])
def test_a_configuration_as_it_is_found(prefix: str) -> None:
    exchange = login(
        settings(
            **{
                "sasl.jaas.config": f'{prefix}{MODULE} required awsDebugCreds=true awsMaxRetries="3";',
                "sasl.client.callback.handler.class": prefix + HANDLER,
            }
        ),
        HOST,
    )
    assert exchange.mechanism == "AWS_MSK_IAM"
    assert json.loads(exchange.first())["x-amz-credential"].startswith("AKIDENV/")
    for secret in ("hunter2", "AKIDENV"):
        assert secret not in repr(exchange)
    assert exchange.next(b'{"version":"2020_10_22","request-id":"r"}') is None


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b"\xff", b'{"version":"1"}', b"[" * 60000, b" " * 70000])
def test_a_malformed_response(answer: bytes) -> None:
    with pytest.raises(AuthenticationError, match="malformed response") as caught:
        login(settings(), HOST).next(answer)
    assert caught.value.retriable


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (settings('awsMskRegionProvider="com.acme.Region?a=b"'), "awsMskRegionProvider = com.acme.Region?a=b: Java"),
        (
            settings(**{"sasl.client.callback.handler.class": "com.acme.Mine"}),
            "com.acme.Mine: Java classes cannot be run",
        ),
        (settings('awsRoleArn="a" awsStsRegion="x/y"'), "awsStsRegion: not an AWS region"),
    ],
)
def test_what_cannot_work(config: ClientConfig, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        login(config, HOST)
    assert message in str(caught.value)


def credential(exchange: Any) -> str:
    return str(json.loads(exchange.first())["x-amz-credential"]).partition("/")[0]


def test_a_roles_credentials_are_shared_and_renewed(aws: FakeAws) -> None:
    """Connections that come later use the same ones, until they are about to expire."""
    aws.replies["POST /"] = assumed("ASIA1")
    role = settings(f'awsRoleArn="{ARN}" awsRoleSessionName="mm2" awsStsRegion="eu-west-1"')
    assert [credential(login(role, HOST)) for _ in range(3)] == ["ASIA1"] * 3
    assert len(aws.asked) == 1
    assert b"RoleSessionName=mm2" in aws.asked[0].body

    other = settings(f'awsRoleArn="{ARN}"')
    aws.replies["POST /"] = assumed("ASIA2", expiration="2001-01-01T00:00:00Z")
    assert credential(login(other, HOST)) == "ASIA2"
    aws.replies["POST /"] = assumed("ASIA3")
    assert credential(login(other, HOST)) == "ASIA3", "the first ones are over"
    assert credential(login(role, HOST)) == "ASIA1"


def test_rejected_credentials_are_fetched_again(aws: FakeAws) -> None:
    aws.replies["POST /"] = assumed("ASIA1")
    role = settings(f'awsRoleArn="{ARN}"')
    refusal = login(role, HOST).refused("Access denied, ASIA1-secret& ASIA1-token")
    assert not refusal.retriable
    assert f"credentials from role {ARN} rejected: Access denied, {MASK} {MASK}; check that" in str(refusal)
    login(role, HOST)
    assert len(aws.asked) == 2
    again = login(role, HOST).refused("no")
    assert again.retriable, "they had been good, so newer ones may be"
    over = MskIam(HOST, "eu-west-1", Credentials("a", "b", expires=1.0)).refused("expired")
    assert over.retriable


def verifying(broker: Broker, keys: dict[str, str], seen: list[dict[str, str]]) -> None:
    """Lets in who signed with one of these keys, as MSK does."""
    kind = ApiVersionsResponse.ApiVersion

    def versions(version: int) -> Any:
        known = {3: 12, 17: 1, 18: 0, 36: 2}
        keys = [kind(api_key=key, min_version=0, max_version=most) for key, most in known.items()]
        return ApiVersionsResponse(version=version, error_code=0, api_keys=keys)

    def authenticate(version: int, request: bytes) -> Any:
        asked = SaslAuthenticateRequest.decode(request, version=version, header=True)
        message = json.loads(asked.auth_bytes)
        seen.append(message)
        key_id, _, region, service, _ = message["x-amz-credential"].split("/")
        assert (service, message["action"]) == ("kafka-cluster", "kafka-cluster:Connect")
        now = datetime.strptime(message["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
        made = Credentials(key_id, keys.get(key_id, "?"), message.get("x-amz-security-token", ""))
        good = json.loads(payload(message["host"], region, made, now))["x-amz-signature"] == message["x-amz-signature"]
        return SaslAuthenticateResponse(
            version=version,
            error_code=0 if good else 58,
            error_message=None if good else "[abc]: Access denied",
            auth_bytes=b'{"version":"2020_10_22","request-id":"abc"}' if good else b"",
            session_lifetime_ms=3_600_000,
        )

    broker.responders[VERSIONS] = versions
    broker.responders[17] = lambda version: SaslHandshakeResponse(
        version=version, error_code=0, mechanisms=["AWS_MSK_IAM"]
    )
    broker.handlers[36] = authenticate


def test_a_broker_lets_us_in_and_keeps_strangers_out(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")  # 127.0.0.1 has no region in its name
    aws.replies["POST /"] = assumed("ASIA")
    seen: list[dict[str, str]] = []
    broker = Broker({})
    verifying(broker, {"AKIDENV": "hunter2", "ASIA": "ASIA-secret&"}, seen)
    try:
        channel = connect(settings(), "127.0.0.1", broker.port, "me", 10)
        assert channel.renew_at < float("inf"), "the session ends, and is renewed before"
        channel.close()
        connect(settings(f'awsRoleArn="{ARN}"'), "127.0.0.1", broker.port, "me", 10).close()
        assert [message["x-amz-credential"].partition("/")[0] for message in seen] == ["AKIDENV", "ASIA"]
        assert probe(settings(), "127.0.0.1", broker.port).stage == "open", "as twinlog doctor does"
        assert seen[1]["x-amz-security-token"] == "ASIA-token"
        assert {message["host"] for message in seen} == {"127.0.0.1"}
        assert "hunter2" not in str(seen)

        msk_iam._cache.cache_clear()
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter3")
        with pytest.raises(
            AuthenticationError, match=r"credentials from the environment rejected: \[abc\]: Access"
        ) as caught:
            connect(settings(), "127.0.0.1", broker.port, "me", 10)
        assert "hunter3" not in str(caught.value)
    finally:
        broker.close()
