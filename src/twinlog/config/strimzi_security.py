"""The security settings that Strimzi derives from a cluster's `tls` and `authentication`."""

from twinlog.config.kubernetes_secrets import Secrets
from twinlog.config.problems import Problems
from twinlog.config.values import Origin, Value, derived
from twinlog.config.yaml_lines import Tree

_MODULES = {
    "plain": ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule"),
    "scram-sha-256": ("SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule"),
    "scram-sha-512": ("SCRAM-SHA-512", "org.apache.kafka.common.security.scram.ScramLoginModule"),
}
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_OAUTH_HANDLER = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
_OAUTH_TEXTS = {
    "clientId": "oauth.client.id",
    "username": "oauth.password.grant.username",
    "tokenEndpointUri": "oauth.token.endpoint.uri",
    "scope": "oauth.scope",
    "audience": "oauth.audience",
    "grantType": "oauth.client.credentials.grant.type",
    "accessTokenLocation": "oauth.access.token.location",
    "clientAssertionLocation": "oauth.client.assertion.location",
    "clientAssertionType": "oauth.client.assertion.type",
    "accessTokenIsJwt": "oauth.access.token.is.jwt",
    "maxTokenExpirySeconds": "oauth.max.token.expiry.seconds",
    "connectTimeoutSeconds": "oauth.connect.timeout.seconds",
    "readTimeoutSeconds": "oauth.read.timeout.seconds",
    "httpRetries": "oauth.http.retries",
    "httpRetryPauseMs": "oauth.http.retry.pause.millis",
    "includeAcceptHeader": "oauth.include.accept.header",
    "enableMetrics": "oauth.enable.metrics",
}
_OAUTH_SECRETS = {
    "clientSecret": "oauth.client.secret",
    "accessToken": "oauth.access.token",
    "refreshToken": "oauth.refresh.token",
    "clientAssertion": "oauth.client.assertion",
    "passwordSecret": "oauth.password.grant.password",
}
_OAUTH_OTHER = ("type", "tlsTrustedCertificates", "disableTlsHostnameVerification", "saslExtensions")


def security(cluster: Tree, secrets: Secrets, problems: Problems) -> dict[str, Value]:
    """Keys without a prefix. An unreadable secret is reported, and its value is the reference to it."""
    values: dict[str, Value] = {}
    tls, authentication = cluster.get("tls"), cluster.get("authentication")
    if certificates := tls.get("trustedCertificates"):
        tls.warn_unknown("trustedCertificates")
        if text := _certificates(certificates, secrets, problems):
            values["ssl.truststore.certificates"] = text
            values["ssl.truststore.type"] = derived("ssl.truststore.type", "PEM", f"from {certificates.path}")
    uses_sasl = _authentication(authentication, values, secrets, problems) if authentication else False
    protocol = f"{'SASL_' if uses_sasl else ''}{'SSL' if tls else 'PLAINTEXT'}"
    values["security.protocol"] = derived("security.protocol", protocol, f"from {cluster.path}")
    return values


def _authentication(tree: Tree, values: dict[str, Value], secrets: Secrets, problems: Problems) -> bool:
    """Adds the settings to `values`; returns whether SASL is used."""
    kind = tree.get("type").required()
    note = f"from {tree.path}"
    if kind == "tls":
        tree.warn_unknown("type", "certificateAndKey")
        pair = tree.get("certificateAndKey")
        pair.warn_unknown("secretName", "certificate", "key")
        secret = pair.get("secretName")
        for field, key in (("certificate", "ssl.keystore.certificate.chain"), ("key", "ssl.keystore.key")):
            name = pair.get(field)
            if secret.required() and name.required():
                values[key] = _secret(key, secret.text().strip(), name.text().strip(), name.origin, secrets, problems)
        values["ssl.keystore.type"] = derived("ssl.keystore.type", "PEM", note)
        return False
    if kind in _MODULES:
        mechanism, module = _MODULES[kind]
        tree.warn_unknown("type", "username", "passwordSecret")
        password = tree.get("passwordSecret")
        options = {"username": tree.get("username").required()}
        values["sasl.mechanism"] = derived("sasl.mechanism", mechanism, note)
        read = _secret(
            "password",
            password.get("secretName").required(),
            password.get("password").required(),
            password.origin,
            secrets,
            problems,
        )
        values["sasl.jaas.config"] = _jaas(module, {**options, "password": read.text}, read)
        return True
    if kind == "oauth":
        values["sasl.mechanism"] = derived("sasl.mechanism", "OAUTHBEARER", note)
        values["sasl.login.callback.handler.class"] = derived("sasl.login.callback.handler.class", _OAUTH_HANDLER, note)
        values["sasl.jaas.config"] = _oauth(tree, secrets, problems)
        return True
    if kind == "custom":
        tree.warn_unknown("type", "sasl", "config")
        for key, value in tree.get("config").items():
            if key.startswith(("ssl.keystore.", "sasl.")):
                values[key] = Value(key, value.text(), value.origin)
            else:
                problems.warn(value.origin, f"{value.path}: ignored, only ssl.keystore.* and sasl.* are allowed here")
        return tree.get("sasl").text() == "true"
    tree.get("type").complain(f"{kind!r}: expected tls, {', '.join(_MODULES)}, oauth or custom")
    return False


def _oauth(tree: Tree, secrets: Secrets, problems: Problems) -> Value:
    tree.warn_unknown(*_OAUTH_TEXTS, *_OAUTH_SECRETS, *_OAUTH_OTHER)
    options = {option: tree.get(field).text() for field, option in _OAUTH_TEXTS.items() if tree.get(field)}
    options |= {f"oauth.sasl.extension.{key}": value.text() for key, value in tree.get("saslExtensions").items()}
    if tree.get("disableTlsHostnameVerification").text() == "true":
        options["oauth.ssl.endpoint.identification.algorithm"] = ""
    last = derived("sasl.jaas.config", "", f"from {tree.path}")
    if trusted := _certificates(tree.get("tlsTrustedCertificates"), secrets, problems):
        options |= {"oauth.ssl.truststore.certificates": trusted.text, "oauth.ssl.truststore.type": "PEM"}
    for field, option in _OAUTH_SECRETS.items():
        if named := tree.get(field):
            key = named.get("password" if field == "passwordSecret" else "key").required()
            last = _secret(option, named.get("secretName").required(), key, named.origin, secrets, problems)
            options[option] = last.text
    return _jaas(_OAUTH, options, last)


def _jaas(module: str, options: dict[str, str], read: Value) -> Value:
    words = [f'{name}="{text.translate(_QUOTE)}"' for name, text in options.items()]
    return Value("sasl.jaas.config", f"{module} required {' '.join(words)};", read.origin)


_QUOTE = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


def _certificates(trees: Tree, secrets: Secrets, problems: Problems) -> Value | None:
    texts, references = [], []
    files: list[str] = []
    for tree in trees.each():
        tree.warn_unknown("secretName", "certificate", "pattern")
        secret = tree.get("secretName").required()
        pattern = tree.get("pattern")
        key = (pattern or tree.get("certificate")).required()
        if secret and key:
            value = _secret("certificate", secret, key, tree.origin, secrets, problems, matching=bool(pattern))
            texts.append(value.text.strip())
            references.append(value.reference or value.text)
            files += value.files
    if not texts:
        return None
    key = "ssl.truststore.certificates"
    return Value(key, "\n".join(texts) + "\n", trees.origin, "".join(references), tuple(files))


def _secret(
    key: str, secret: str, name: str, origin: Origin, secrets: Secrets, problems: Problems, *, matching: bool = False
) -> Value:
    reference = f"<{secret}/{name}>"
    try:
        files = secrets.matching(secret, name) if matching else [secrets.file(secret, name)]
        return Value(key, secrets.read_all(files), origin, reference, tuple(map(str, files)))
    except LookupError as error:
        # Without --secrets a resource can still be shown; with it, a missing secret is an error.
        (problems.warn if secrets.folder is None else problems.error)(origin, str(error))
        return Value(key, reference, origin, reference)
