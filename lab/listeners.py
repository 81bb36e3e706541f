"""Listeners of a broker, for every security protocol: the broker's properties and those of its clients.

Client properties use the names of Kafka's Java clients, which MM2, Kafka's tools and Twinlog read;
`librdkafka_properties` gives the equivalent for librdkafka.
"""

from dataclasses import dataclass

from lab import certificates, oauth_server
from lab.errors import LabError
from lab.kdc import REALM, SERVICE, Kdc
from lab.ports import HOST

_SECURITY = "org.apache.kafka.common.security"
_KERBEROS_SERVICE = SERVICE.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Listener:
    """A broker binds `host`; clients connect to `advertised_host`, which differs for an emulated link."""

    name: str
    mechanism: str | None = None
    tls: bool = False
    client_certificate: bool = False
    host: str = HOST
    advertised_host: str = HOST

    @property
    def protocol(self) -> str:
        if self.mechanism:
            return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"
        return "SSL" if self.tls else "PLAINTEXT"

    @property
    def scram(self) -> bool:
        return (self.mechanism or "").startswith("SCRAM-")

    @property
    def oauth(self) -> bool:
        return self.mechanism == "OAUTHBEARER"

    @property
    def kerberos(self) -> bool:
        return self.mechanism == "GSSAPI"


PLAINTEXT = Listener("PLAINTEXT")
TLS = Listener("TLS", tls=True)
MUTUAL_TLS = Listener("MUTUAL_TLS", tls=True, client_certificate=True)
SASL_PLAIN = Listener("SASL_PLAIN", "PLAIN")
SASL_PLAIN_TLS = Listener("SASL_PLAIN_TLS", "PLAIN", tls=True)
SCRAM_256 = Listener("SCRAM_256", "SCRAM-SHA-256")
SCRAM_256_TLS = Listener("SCRAM_256_TLS", "SCRAM-SHA-256", tls=True)
SCRAM_512 = Listener("SCRAM_512", "SCRAM-SHA-512")
SCRAM_512_TLS = Listener("SCRAM_512_TLS", "SCRAM-SHA-512", tls=True)
OAUTH = Listener("OAUTH", "OAUTHBEARER")
OAUTH_TLS = Listener("OAUTH_TLS", "OAUTHBEARER", tls=True)

# Not in `EVERY`: not every machine has a KDC (see kdc.py).
GSSAPI = Listener("GSSAPI", "GSSAPI")

EVERY = (
    PLAINTEXT, TLS, MUTUAL_TLS, SASL_PLAIN, SASL_PLAIN_TLS, SCRAM_256, SCRAM_256_TLS, SCRAM_512, SCRAM_512_TLS, OAUTH,
    OAUTH_TLS,
)  # fmt: skip

# For the brokers themselves and the lab's admin client, as the only super user. So ACLs fully apply to all other
# listeners.
INTERNAL = Listener("INTERNAL", "PLAIN")
CONTROLLER = Listener("CONTROLLER", "PLAIN")
SUPER_USER = "lab"


def password(user: str) -> str:
    """Derived from the user name: these clusters need no real secrets."""
    return f"{user}-secret"


@dataclass(frozen=True, slots=True)
class Secrets:
    """A cluster's users and the authorities that issue their credentials."""

    users: tuple[str, ...] = ()
    authority: certificates.Authority | None = None
    oauth: oauth_server.Endpoints | None = None
    kdc: Kdc | None = None


def broker_properties(listener: Listener, secrets: Secrets) -> dict[str, str]:
    """The listener's settings in server.properties."""
    properties: dict[str, str] = {}
    if listener.mechanism:
        properties["sasl.enabled.mechanisms"] = listener.mechanism
        mechanism = listener.mechanism.lower()
        properties[f"{mechanism}.sasl.jaas.config"] = _broker_jaas(listener, secrets)
        if listener.oauth:
            oauth = _oauth(listener, secrets)
            properties[f"{mechanism}.sasl.server.callback.handler.class"] = (
                f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            )
            properties["sasl.oauthbearer.jwks.endpoint.url"] = oauth.jwks
            properties["sasl.oauthbearer.expected.issuer"] = oauth.issuer
            properties["sasl.oauthbearer.expected.audience"] = oauth_server.AUDIENCE
        if listener.kerberos:
            properties["sasl.kerberos.service.name"] = _KERBEROS_SERVICE
    if listener.tls:
        authority = _authority(listener, secrets)
        properties |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.server().pem),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.ca),
            "ssl.client.auth": "required" if listener.client_certificate else "none",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        }
    return {f"listener.name.{listener.name.lower()}.{key}": value for key, value in properties.items()}


def client_properties(listener: Listener, user: str | None, secrets: Secrets) -> dict[str, str]:
    """The properties of a Java client of that listener, without the bootstrap servers."""
    properties = {"security.protocol": listener.protocol}
    if listener.tls:
        authority = _authority(listener, secrets)
        properties |= {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(authority.truststore),
            "ssl.truststore.password": certificates.PASSWORD,
        }
        if listener.client_certificate:
            properties |= {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(authority.client(_user(listener, user)).keystore),
                "ssl.keystore.password": certificates.PASSWORD,
                "ssl.key.password": certificates.PASSWORD,
            }
    if listener.mechanism:
        name = _user(listener, user)
        properties["sasl.mechanism"] = listener.mechanism
        if listener.oauth:
            properties |= {
                "sasl.jaas.config": _jaas("oauthbearer.OAuthBearer", clientId=name, clientSecret=password(name)),
                "sasl.login.callback.handler.class": f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": _oauth(listener, secrets).token,
            }
        elif listener.kerberos:
            properties["sasl.kerberos.service.name"] = _KERBEROS_SERVICE
            properties["sasl.jaas.config"] = _kerberos(_kdc(listener, secrets), name)
        else:
            module = "scram.Scram" if listener.scram else "plain.Plain"
            properties["sasl.jaas.config"] = _jaas(module, username=name, password=password(name))
    return properties


def librdkafka_properties(listener: Listener, user: str | None, secrets: Secrets) -> dict[str, str]:
    """The same for librdkafka (confluent-kafka, kcat)."""
    properties = {"security.protocol": listener.protocol.lower()}
    if listener.tls:
        authority = _authority(listener, secrets)
        properties["ssl.ca.location"] = str(authority.ca)
        if listener.client_certificate:
            files = authority.client(_user(listener, user))
            properties["ssl.certificate.location"] = str(files.certificate)
            properties["ssl.key.location"] = str(files.key)
    if listener.mechanism:
        name = _user(listener, user)
        properties["sasl.mechanism"] = listener.mechanism
        if listener.oauth:
            properties |= {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": name,
                "sasl.oauthbearer.client.secret": password(name),
                "sasl.oauthbearer.token.endpoint.url": _oauth(listener, secrets).token,
            }
        elif listener.kerberos:
            raise LabError("librdkafka from pip is built without GSSAPI: use a Java client")
        else:
            properties |= {"sasl.username": name, "sasl.password": password(name)}
    return properties


def _broker_jaas(listener: Listener, secrets: Secrets) -> str:
    if listener.scram:
        return _jaas("scram.Scram")  # the users are in the cluster's metadata
    if listener.oauth:
        return _jaas("oauthbearer.OAuthBearer")
    if listener.kerberos:
        return _kerberos(_kdc(listener, secrets), SERVICE)
    users = (SUPER_USER,) if listener in (INTERNAL, CONTROLLER) else secrets.users
    passwords = {f"user_{user}": password(user) for user in users}
    return _jaas("plain.Plain", username=SUPER_USER, password=password(SUPER_USER), **passwords)


def _jaas(module: str, **options: str) -> str:
    text = "".join(f' {key}="{value}"' for key, value in options.items())
    return f"{_SECURITY}.{module}LoginModule required{text};"


def _kerberos(kdc: Kdc, principal: str) -> str:
    options = f'useKeyTab="true" storeKey="true" keyTab="{kdc.keytab(principal)}" principal="{principal}@{REALM}"'
    return f"com.sun.security.auth.module.Krb5LoginModule required {options};"


def _user(listener: Listener, user: str | None) -> str:
    if user is None:
        raise LabError(f"listener {listener.name} requires authentication: name a user")
    return user


def _authority(listener: Listener, secrets: Secrets) -> certificates.Authority:
    if secrets.authority is None:
        raise LabError(f"listener {listener.name} needs certificates, but the cluster has none")
    return secrets.authority


def _oauth(listener: Listener, secrets: Secrets) -> oauth_server.Endpoints:
    if secrets.oauth is None:
        raise LabError(f"listener {listener.name} needs a token issuer, but the cluster has none")
    return secrets.oauth


def _kdc(listener: Listener, secrets: Secrets) -> Kdc:
    if secrets.kdc is None:
        raise LabError(f"listener {listener.name} needs a KDC, but the cluster has none")
    return secrets.kdc
