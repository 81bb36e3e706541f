"""Sources of AWS credentials and their errors, none of which shows a secret."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from tests.security.aws import Asked, FakeAws, Reply, assumed, refused
from twinlog.errors import AuthenticationError, ConfigError
from twinlog.security import aws_sts, sigv4
from twinlog.security.aws_credentials import CredentialSettings
from twinlog.security.aws_sts import Credentials, Role
from twinlog.text import MASK

ARN = "arn:aws:iam::123456789012:role/mirror"
STATIC = {"AWS_ACCESS_KEY_ID": "AKIDENV", "AWS_SECRET_ACCESS_KEY": "hunter2"}


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAws]:
    fake = FakeAws()
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", fake.url)
    yield fake
    fake.close()


def sets(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)


def profiles(folder: Path, config: str = "", credentials: str = "") -> None:
    (folder / "home/.aws").mkdir(parents=True, exist_ok=True)
    (folder / "home/.aws/config").write_text(config)
    (folder / "home/.aws/credentials").write_text(credentials)


def found(wanted: CredentialSettings | None = None) -> tuple[str, str, str]:
    made = (wanted or CredentialSettings()).fetch()
    return made.key_id, made.secret, made.token


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    sets(monkeypatch, STATIC)
    assert found() == ("AKIDENV", "hunter2", "")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    made = CredentialSettings().fetch()
    assert (made.token, made.expires, made.origin) == ("token", None, "the environment")
    for secret in ("AKIDENV", "hunter2", "'token'"):
        assert secret not in repr(made)


def test_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(
        AuthenticationError, match="no AWS credentials: no other source is configured; set AWS_ACCESS_KEY_ID"
    ):
        found()
    profiles(tmp_path, "[default]\nregion = eu-west-1\n")
    with pytest.raises(AuthenticationError, match="profile 'x' has none"):
        found(CredentialSettings("x"))


def test_profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    profiles(
        tmp_path,
        "[default]\nregion=eu-west-1\ns3 =\n  max_concurrent_requests = 20\n"
        "[profile other]\naws_access_key_id = AKIDCONFIG\naws_secret_access_key = old\n[services x]\nsts =\n  a = b\n",
        "# mine\n[default]\naws_access_key_id=AKIDDEFAULT\naws_secret_access_key=a%b=c\n[other]\n"
        "aws_secret_access_key = new\naws_session_token = t\n",
    )
    assert found() == ("AKIDDEFAULT", "a%b=c", "")
    assert found(CredentialSettings("other")) == ("AKIDCONFIG", "new", "t")
    monkeypatch.setenv("AWS_PROFILE", "other")
    assert found() == ("AKIDCONFIG", "new", "t")
    assert found(CredentialSettings("unknown")) == ("AKIDCONFIG", "new", "t"), "as AWS's module: then the default chain"
    with pytest.raises(AuthenticationError, match="profile 'unknown' has none"):
        found(CredentialSettings("unknown", defaults=False))
    moved = tmp_path / "moved"
    moved.write_text("[other]\naws_access_key_id=AKIDMOVED\naws_secret_access_key=s\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(moved))
    assert found()[0] == "AKIDMOVED"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("hunter2\n", "not an AWS profile file"),
        ("[default]\ncredential_process = echo hunter2\n", "credential_process is not supported"),
        ("[default]\nsso_session = x\n", "sso_session is not supported"),
        (f"[default]\nrole_arn = {ARN}\n", "no credentials to assume its role_arn"),
        (f"[default]\nrole_arn = {ARN}\ncredential_source = Moon\n", "no credentials to assume its role_arn"),
        (f"[default]\nrole_arn={ARN}\nsource_profile=a\n[profile a]\nrole_arn={ARN}\nsource_profile=default\n",
         "no credentials to assume its role_arn"),
    ],
)  # fmt: skip
def test_profiles_that_cannot_work(tmp_path: Path, config: str, message: str) -> None:
    profiles(tmp_path, config)
    with pytest.raises(ConfigError) as caught:
        found()
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)


def signed_by(asked: Asked, key_id: str, secret: str, region: str) -> None:
    """As STS checks it, from what arrived."""
    head, signed, signature = asked.headers["authorization"].split(", ")
    scope = sigv4.Scope(aws_sts.expiration(asked.headers["x-amz-date"]) or 0, region, "sts")
    assert head == f"AWS4-HMAC-SHA256 Credential={key_id}/{scope.text}"
    names = signed.removeprefix("SignedHeaders=").split(";")
    headers = {name: asked.headers[name] for name in names}
    request = sigv4.Request("POST", "/", {}, headers, hashlib.sha256(asked.body).hexdigest())
    assert signature == f"Signature={sigv4.signature(secret, scope, request)}"


def test_a_role_of_the_login_module(monkeypatch: pytest.MonkeyPatch, aws: FakeAws) -> None:
    sets(monkeypatch, STATIC | {"AWS_SESSION_TOKEN": "base-token"})
    aws.replies["POST /"] = assumed("ASIA")
    made = CredentialSettings(role=Role(ARN, "mm2", "ext&ernal", "eu-west-1")).fetch()
    assert (made.key_id, made.secret, made.token) == ("ASIA", "ASIA-secret&", "ASIA-token")
    assert made.expires == 32472144000
    assert made.origin == f"role {ARN}"
    (asked,) = aws.asked
    signed_by(asked, "AKIDENV", "hunter2", "eu-west-1")
    assert asked.headers["x-amz-security-token"] == "base-token"
    assert "x-amz-security-token" in asked.headers["authorization"]
    assert {key: value for key, (value,) in parse_qs(asked.body.decode()).items()} == {
        "Action": "AssumeRole", "Version": "2011-06-15", "RoleArn": ARN, "RoleSessionName": "mm2",
        "ExternalId": "ext&ernal",
    }  # fmt: skip


def test_a_role_with_keys_of_its_own(aws: FakeAws) -> None:
    aws.replies["POST /"] = assumed("ASIA")
    assert found(CredentialSettings(role=Role(ARN), base=Credentials("AKIDBASE", "s")))[0] == "ASIA"
    signed_by(aws.asked[0], "AKIDBASE", "s", "us-east-1")
    with pytest.raises(AuthenticationError, match=r"no AWS credentials to assume role arn:aws.*awsRoleAccessKeyId"):
        found(CredentialSettings(role=Role(ARN)))


@pytest.mark.parametrize(
    ("reply", "message", "retriable"),
    [
        ((403, refused("AccessDenied", "hunter2 is not authorized to perform: sts:AssumeRole")),
         "HTTP 403, AccessDenied: [hidden] is not authorized to perform: sts:AssumeRole; check the role's trust policy",
         False),
        ((400, refused("Throttling", "Rate exceeded")), "HTTP 400, Throttling: Rate exceeded", True),
        ((503, b""), "HTTP 503, no reason given", True),
        ((302, b""), "HTTP 302", False),
        ((200, b"<html>"), "malformed response; check that it is AWS STS", True),
        ((200, b"<AccessKeyId>a</AccessKeyId>"), "malformed response", True),
        ((200, b"x" * (1 << 19)), "too large", True),
    ],
)  # fmt: skip
def test_a_role_that_cannot_be_assumed(
    monkeypatch: pytest.MonkeyPatch, aws: FakeAws, reply: Reply, message: str, retriable: bool
) -> None:
    """Another identity is not used instead, though the environment has one."""
    sets(monkeypatch, STATIC)
    aws.replies["POST /"] = reply
    with pytest.raises(AuthenticationError) as caught:
        found(CredentialSettings(role=Role(ARN)))
    assert message.replace("[hidden]", MASK) in str(caught.value)
    assert caught.value.retriable is retriable
    assert "hunter2" not in str(caught.value)
    assert len(aws.asked) == 1, "a redirect is not followed"


def test_a_web_identity(monkeypatch: pytest.MonkeyPatch, aws: FakeAws, tmp_path: Path) -> None:
    token = tmp_path / "token"
    sets(monkeypatch, {"AWS_WEB_IDENTITY_TOKEN_FILE": str(token), "AWS_ROLE_ARN": ARN})
    with pytest.raises(AuthenticationError, match=r"web identity token .*: No such file"):
        found()
    token.write_text("jwt\n")
    aws.replies["POST /"] = assumed("ASIAWEB", action="AssumeRoleWithWebIdentity")
    assert found()[0] == "ASIAWEB"
    form = parse_qs(aws.asked[0].body.decode())
    assert form["WebIdentityToken"] == ["jwt"]
    assert form["RoleArn"] == [ARN]
    assert "authorization" not in aws.asked[0].headers
    aws.replies["POST /"] = (400, refused("InvalidIdentityToken", "jwt is bad"))
    with pytest.raises(AuthenticationError) as caught:
        found()
    assert "jwt is bad" not in str(caught.value)


def test_roles_of_profiles(monkeypatch: pytest.MonkeyPatch, aws: FakeAws, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("jwt")
    profiles(
        tmp_path,
        f"[profile a]\nrole_arn = {ARN}-a\nsource_profile = b\nregion = eu-north-1\nexternal_id = e\n"
        f"[profile b]\nrole_arn = {ARN}-b\nsource_profile = c\n[profile env]\nrole_arn = {ARN}\n"
        f"credential_source = Environment\n[profile web]\nrole_arn={ARN}\nweb_identity_token_file={token}\n"
        f"[profile self]\nrole_arn={ARN}\nsource_profile=self\naws_access_key_id=AKIDSELF\naws_secret_access_key=s\n",
        "[c]\naws_access_key_id = AKIDC\naws_secret_access_key = sc\n",
    )
    aws.replies["POST /"] = lambda asked: assumed("ASIA" + parse_qs(asked.body.decode())["RoleArn"][0][-1])
    assert found(CredentialSettings("a"))[0] == "ASIAa"
    first, second = aws.asked
    signed_by(first, "AKIDC", "sc", "us-east-1")
    signed_by(second, "ASIAb", "ASIAb-secret&", "eu-north-1")
    sets(monkeypatch, STATIC)
    assert found(CredentialSettings("env"))[2] == "ASIAr-token"
    signed_by(aws.asked[-1], "AKIDENV", "hunter2", "us-east-1")
    assert found(CredentialSettings("web"))[2] == "ASIAr-token"
    assert b"WebIdentityToken=jwt" in aws.asked[-1].body
    assert found(CredentialSettings("self"))[2] == "ASIAr-token"
    signed_by(aws.asked[-1], "AKIDSELF", "s", "us-east-1")


GIVEN = {
    "Code": "Success", "AccessKeyId": "ASIA", "SecretAccessKey": "hunter2", "Token": "t",
    "Expiration": "2999-01-01T00:00:00Z",
}  # fmt: skip


def test_a_container(monkeypatch: pytest.MonkeyPatch, aws: FakeAws, tmp_path: Path) -> None:
    aws.replies["GET /v1/credentials"] = (200, json.dumps(GIVEN).encode())
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{aws.url}/v1/credentials")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic abc")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    made = CredentialSettings().fetch()
    assert (made.key_id, made.token, made.expires, made.origin) == ("ASIA", "t", 32472144000, "the container's role")
    assert aws.asked[-1].headers["authorization"] == "Basic abc"
    file = tmp_path / "token"
    file.write_text("from a file\n")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(file))
    assert found()[0] == "ASIA"
    assert aws.asked[-1].headers["authorization"] == "from a file"
    file.write_text("two\nlines")
    with pytest.raises(ConfigError, match="not valid in an HTTP header"):
        found()
    file.unlink()
    with pytest.raises(AuthenticationError, match=r"container token .*: No such file"):
        found()


@pytest.mark.parametrize(
    ("reply", "message", "retriable"),
    [
        ((401, b"hunter2"), "/: HTTP 401", False),
        ((500, b"hunter2"), "/: HTTP 500", True),
        ((200, b"hunter2"), "malformed response", True),
        ((200, b'{"AccessKeyId": "a", "SecretAccessKey": ["hunter2"]}'), "malformed response", True),
        ((200, b"[" * 100000), "malformed response", True),
    ],
)
def test_a_container_without_credentials(
    monkeypatch: pytest.MonkeyPatch, aws: FakeAws, reply: Reply, message: str, retriable: bool
) -> None:
    aws.replies["GET /"] = reply
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{aws.url}/")
    with pytest.raises(AuthenticationError) as caught:
        found()
    assert message in str(caught.value)
    assert caught.value.retriable is retriable
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://192.0.2.1/x", "ftp://127.0.0.1/", "file:///etc/passwd", "http://localhost.x/"])
def test_a_container_agent_on_another_host_is_rejected(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
    with pytest.raises(ConfigError, match="AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        found()


def test_an_instance(monkeypatch: pytest.MonkeyPatch, aws: FakeAws) -> None:
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", aws.url)
    with pytest.raises(AuthenticationError, match="no AWS credentials"):
        found()
    aws.replies["PUT /latest/api/token"] = (200, b"session")
    with pytest.raises(AuthenticationError, match="no AWS credentials"):
        found()  # an instance without a role
    folder = "/latest/meta-data/iam/security-credentials/"
    aws.replies[f"GET {folder}"] = (200, b"my role")
    aws.replies[f"GET {folder}my%20role"] = (200, json.dumps(GIVEN).encode())
    made = CredentialSettings().fetch()
    assert (made.key_id, made.secret, made.token, made.origin) == ("ASIA", "hunter2", "t", "the instance's role")
    assert aws.asked[-3].headers["x-aws-ec2-metadata-token-ttl-seconds"] == "21600"
    assert [asked.headers["x-aws-ec2-metadata-token"] for asked in aws.asked[-2:]] == ["session", "session"]
    aws.replies[f"GET {folder}my%20role"] = (200, b'{"Code": "Failed"}')
    with pytest.raises(AuthenticationError, match="malformed response"):
        found()


@pytest.mark.parametrize(
    ("role", "url", "region"),
    [
        (Role(ARN), "https://sts.amazonaws.com/", "us-east-1"),
        (Role(ARN, region="aws-global"), "https://sts.amazonaws.com/", "us-east-1"),
        (Role(ARN, region="eu-west-1"), "https://sts.eu-west-1.amazonaws.com/", "eu-west-1"),
        (Role(ARN, region="cn-north-1"), "https://sts.cn-north-1.amazonaws.com.cn/", "cn-north-1"),
        (Role(ARN, region="us-west-2", fips=True), "https://sts-fips.us-west-2.amazonaws.com/", "us-west-2"),
    ],
)
def test_which_sts(role: Role, url: str, region: str) -> None:
    assert aws_sts.endpoint(role) == (url, region)


def test_an_invalid_sts_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="awsStsRegion"):
        aws_sts.endpoint(Role(ARN, region="evil.example/"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "file:///x")
    with pytest.raises(ConfigError, match="AWS_ENDPOINT_URL"):
        aws_sts.endpoint(Role(ARN))
