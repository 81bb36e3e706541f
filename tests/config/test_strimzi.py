"""Strimzi's KafkaMirrorMaker2, both versions, with secrets from a folder."""

from pathlib import Path

import pytest

from twinlog.config import Config, InvalidConfigError, load

V1 = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: mm2, namespace: kafka}
spec:
  replicas: 1
  target:
    alias: eu
    bootstrapServers: e:9093
    groupId: mm2-group
    configStorageTopic: mm2-configs
    offsetStorageTopic: mm2-offsets
    statusStorageTopic: mm2-status
    config:
      producer.compression.type: zstd
      offset.flush.interval.ms: 10000
    tls:
      trustedCertificates:
        - secretName: eu-ca
          pattern: "*.crt"
    authentication:
      type: scram-sha-512
      username: mirror
      passwordSecret: {secretName: eu-user, password: password}
  mirrors:
    - source:
        alias: us
        bootstrapServers: u:9093
        tls: {}
        authentication:
          type: tls
          certificateAndKey: {secretName: us-user, certificate: user.crt, key: user.key}
      sourceConnector:
        tasksMax: 4
        config:
          replication.factor: -1
          sync.topic.acls.enabled: "false"
      checkpointConnector:
        state: paused
        config:
          sync.group.offsets.enabled: true
      topicsPattern: "orders, clicks"
      topicsExcludePattern: "x.*"
      groupsPattern: ".*"
"""


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    for name, content in {
        "eu-ca/a.crt": "CERTIFICATE A",
        "eu-ca/b.crt": "CERTIFICATE B",
        "eu-ca/ignored.p12": "binary",
        "eu-user/password": 'pa"ss\\word',
        "us-user/user.crt": "CHAIN",
        "us-user/user.key": "KEY",
    }.items():
        path = tmp_path / "secrets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return tmp_path / "secrets"


def read(tmp_path: Path, text: str, secrets: Path | None = None) -> Config:
    path = tmp_path / "mm2.yaml"
    path.write_text(text)
    return load([path], secrets)


def test_v1(tmp_path: Path, secrets: Path) -> None:
    config = read(tmp_path, V1, secrets)
    assert config.problems == ()
    (flow,) = config.flows
    assert flow.source is not None
    assert flow.checkpoint is not None
    assert flow.heartbeat is None
    assert flow.source.settings.name == "us->eu.MirrorSourceConnector"
    assert (flow.source.settings.tasks_max, flow.source.settings.replication_factor) == (4, -1)
    assert flow.source.settings.topics == ("orders", "clicks")
    assert flow.source.settings.topics_exclude == ("x.*",)
    assert not flow.source.settings.sync_topic_acls_enabled
    assert flow.checkpoint.settings.sync_group_offsets_enabled
    assert flow.checkpoint.state == "paused"
    assert flow.worker.settings.group_id == "mm2-group"
    assert flow.worker.settings.offset_flush_interval_ms == 10_000

    data = flow.source.clients["data.producer"]
    assert (data["security.protocol"], data["sasl.mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert data["compression.type"] == "zstd"
    assert data["ssl.truststore.certificates"] == "CERTIFICATE A\nCERTIFICATE B"
    assert data["ssl.truststore.type"] == "PEM"
    assert data["sasl.jaas.config"] == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="mirror" password="pa\\"ss\\\\word";'
    )
    consumer = flow.source.clients["source.consumer"]
    assert (consumer["security.protocol"], consumer["ssl.keystore.type"]) == ("SSL", "PEM")
    assert (consumer["ssl.keystore.certificate.chain"], consumer["ssl.keystore.key"]) == ("CHAIN", "KEY")


def test_v1beta2_has_strimzis_defaults(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaMirrorMaker2\nspec:\n  connectCluster: eu\n  clusters:\n"
        "    - {alias: us, bootstrapServers: 'u:1'}\n    - {alias: eu, bootstrapServers: 'e:1'}\n  mirrors:\n"
        "    - sourceCluster: us\n      targetCluster: eu\n      sourceConnector: {}\n      heartbeatConnector: {}\n"
        "      topicsBlacklistPattern: old\n      topicsExcludePattern: new\n      groupsBlacklistPattern: g\n"
        "      checkpointConnector: {pause: true}\n",
    )
    (flow,) = config.flows
    assert flow.worker.settings.group_id == "mirrormaker2-cluster"
    assert flow.worker.settings.offset_storage_topic == "mirrormaker2-cluster-offsets"
    assert flow.source is not None
    assert flow.checkpoint is not None
    assert flow.heartbeat is not None
    assert flow.source.settings.topics_exclude == ("new",)
    assert flow.checkpoint.settings.groups_exclude == ("g",)
    assert flow.checkpoint.state == "paused"
    assert flow.source.clients["source.consumer"]["security.protocol"] == "PLAINTEXT"


def test_without_the_secrets_folder(tmp_path: Path) -> None:
    config = read(tmp_path, V1)
    assert len(config.flows) == 1
    assert {problem.level for problem in config.problems} == {"warning"}
    assert any(
        "secret 'us-user' is required; set the directory of mounted secrets with --secrets" in p.text
        for p in config.problems
    )


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("secretName: us-user", "secretName: nobody", "mm2.yaml:31: error: secret 'nobody' is missing"),
        ("key: user.key", "key: other.key", "us-user/other.key"),
        ("secretName: us-user", "secretName: ../us-user", "is not a valid name of a secret"),
        ('pattern: "*.crt"', 'pattern: "*.pem"', "secret 'eu-ca': no key matches '*.pem'"),
        ("groupId: mm2-group", "x: y", "spec.target.groupId is missing"),
        ("kafka.strimzi.io/v1", "kafka.strimzi.io/v2", "expected kafka.strimzi.io/v1 or"),
        ("type: tls", "type: kerberos", "'kerberos': expected tls, plain"),
        ("tasksMax: 4", "tasksMax: none", "spec.mirrors[0].sourceConnector.tasksMax = 'none': expected a whole number"),
        ("bootstrapServers: u:9093", "x: y", "source.cluster.bootstrap.servers is missing"),
        ("state: paused", "state: asleep", "'asleep': expected running, paused or stopped"),
        ("replicas: 1", "replicas: [1", "mm2.yaml:6: error: invalid YAML"),
    ],
)
def test_errors(tmp_path: Path, secrets: Path, old: str, new: str, complaint: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        read(tmp_path, V1.replace(old, new), secrets)
    assert complaint in str(caught.value)


def test_unknown_fields_are_warnings(tmp_path: Path, secrets: Path) -> None:
    config = read(tmp_path, V1.replace("tasksMax: 4", "taskMax: 4"), secrets)
    assert [str(problem) for problem in config.problems] == [
        "mm2.yaml:33: warning: spec.mirrors[0].sourceConnector.taskMax: unknown field, ignored (did you mean tasksMax?)"
    ]


def test_settings_ignored_by_strimzi(tmp_path: Path, secrets: Path) -> None:
    config = read(tmp_path, V1.replace("producer.compression.type: zstd", "sasl.mechanism: PLAIN"), secrets)
    assert any("ignored by Strimzi" in problem.text for problem in config.problems)
    assert config.flows[0].worker.values["sasl.mechanism"].text == "SCRAM-SHA-512"


def test_comments_stay_comments(tmp_path: Path, secrets: Path) -> None:
    assert read(
        tmp_path, V1.replace("spec:", "spec: # the spec #").replace("mirrors:", "mirrors: # all #"), secrets
    ).flows


def test_a_list_of_resources(tmp_path: Path, secrets: Path) -> None:
    listed = "apiVersion: v1\nkind: List\nitems:\n- " + V1.replace("\n", "\n  ")
    assert len(read(tmp_path, listed, secrets).flows) == 1


def test_strimzis_own_providers(tmp_path: Path, secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINLOG_TASKS", "7")
    (secrets / "us-user" / "x.properties").write_text("who = me\n")
    declared = (
        "config.providers: vault, file\n      config.providers.vault.class: io.strimzi.kafka.KubernetesSecretConfigProvider\n"
        "      config.providers.file.class: org.apache.kafka.common.config.provider.FileConfigProvider\n"
        "      client.id: ${file:/opt/kafka/external-configuration/creds/x.properties:who}-${vault:kafka/us-user:user.crt}"
    )
    text = V1.replace("producer.compression.type: zstd", declared).replace(
        "tasksMax: 4", 'tasksMax: "${strimzienv:TWINLOG_TASKS}"'
    )
    text = text.replace(
        "spec:\n", "spec:\n  externalConfiguration:\n    volumes: [{name: creds, secret: {secretName: us-user}}]\n"
    )
    (flow,) = read(tmp_path, text, secrets).flows
    assert flow.source is not None
    assert flow.source.settings.tasks_max == 7
    assert flow.worker.values["client.id"].text == "me-CHAIN"


def test_two_mirrors_of_one_flow_are_rejected(tmp_path: Path, secrets: Path) -> None:
    mirror = V1[V1.index("    - source:") :]
    with pytest.raises(InvalidConfigError, match="second mirror us->eu"):
        read(tmp_path, V1 + mirror, secrets)


def test_a_binary_secret_is_named(tmp_path: Path, secrets: Path) -> None:
    (secrets / "us-user" / "user.key").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidConfigError, match=r"user\.key: not text"):
        read(tmp_path, V1, secrets)


@pytest.mark.parametrize(
    "text",
    [
        "a: \x07",
        "kind: KafkaMirrorMaker2\na: !!int foo\nb: !!bool foo\nc: !!float foo",
        "kind: KafkaMirrorMaker2\nspec: &a {target: *a}",
        "kind: KafkaMirrorMaker2\nspec: " + "[" * 3000,
        "kind: KafkaMirrorMaker2\na: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{b}: &{b} [{','.join(['*' + a] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
        "kind: KafkaMirrorMaker2\npassword: *hunter2",
    ],
)  # fmt: skip
def test_nothing_in_a_file_can_crash_or_hang_the_reader(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        read(tmp_path, text)
    assert "hunter2" not in str(caught.value)


def test_oauth(tmp_path: Path, secrets: Path) -> None:
    (secrets / "eu-user" / "secret").write_text("s3cret")
    scram = V1[V1.index("      type: scram-sha-512") : V1.index("  mirrors:")]
    oauth = (
        "      type: oauth\n      clientId: me\n      tokenEndpointUri: https://idp/token\n      scope: kafka\n"
        "      clientSecret: {secretName: eu-user, key: secret}\n      saslExtensions: {team: a}\n"
        "      disableTlsHostnameVerification: true\n"
        "      tlsTrustedCertificates: [{secretName: eu-ca, certificate: a.crt}]\n"
    )
    (flow,) = read(tmp_path, V1.replace(scram, oauth), secrets).flows
    assert flow.source is not None
    data = flow.source.clients["data.producer"]
    assert (data["security.protocol"], data["sasl.mechanism"]) == ("SASL_SSL", "OAUTHBEARER")
    assert data["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'oauth.client.id="me" oauth.token.endpoint.uri="https://idp/token" oauth.scope="kafka" '
        'oauth.sasl.extension.team="a" oauth.ssl.endpoint.identification.algorithm="" '
        'oauth.ssl.truststore.certificates="CERTIFICATE A\\n" oauth.ssl.truststore.type="PEM" '
        'oauth.client.secret="s3cret";'
    )


@pytest.mark.parametrize(
    ("kind", "mechanism", "module"),
    [
        ("plain", "PLAIN", "plain.PlainLoginModule"),
        ("scram-sha-256", "SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("scram-sha-512", "SCRAM-SHA-512", "scram.ScramLoginModule"),
    ],
)
def test_passwords(tmp_path: Path, secrets: Path, kind: str, mechanism: str, module: str) -> None:
    (flow,) = read(tmp_path, V1.replace("type: scram-sha-512", f"type: {kind}"), secrets).flows
    assert flow.source is not None
    data = flow.source.clients["data.producer"]
    assert data["sasl.mechanism"] == mechanism
    assert data["sasl.jaas.config"].startswith(f"org.apache.kafka.common.security.{module} required ")


def test_custom_authentication(tmp_path: Path, secrets: Path) -> None:
    scram = V1[V1.index("      type: scram-sha-512") : V1.index("  mirrors:")]
    custom = (
        "      type: custom\n      sasl: true\n      config:\n        sasl.mechanism: AWS_MSK_IAM\n"
        '        sasl.jaas.config: "x.IAMLoginModule required;"\n        bootstrap.servers: other:1\n'
    )
    config = read(tmp_path, V1.replace(scram, custom), secrets)
    assert config.flows[0].source is not None
    data = config.flows[0].source.clients["data.producer"]
    assert (data["security.protocol"], data["sasl.mechanism"]) == ("SASL_SSL", "AWS_MSK_IAM")
    assert data["bootstrap.servers"] == ("e:9093",)
    assert any("only ssl.keystore.* and sasl.* are allowed" in problem.text for problem in config.problems)
