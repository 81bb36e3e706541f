"""The kinds of door that a broker can have, and both sides of each: the broker's properties and the client's.

Functions over frozen values, pure but for one thing: a user's certificate is made when first asked for. Client
properties use Java's names, since MM2, Kafka's tools and Twinlog read those; `librdkafka_properties` says the same to
the one client that has words of its own.
"""

from dataclasses import dataclass

from twinlog.errors import LabError
from twinlog.lab import certificates, tokens
from twinlog.lab.kdc import REALM, SERVICE, Kdc

_SECURITY = "org.apache.kafka.common.security"
_KERBEROS_SERVICE = SERVICE.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Listener:
    name: str
    mechanism: str | None = None
    tls: bool = False
    client_certificate: bool = False

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

# Not among `EVERY`: a KDC is not on every machine (see kdc.py).
GSSAPI = Listener("GSSAPI", "GSSAPI")

EVERY = (
    PLAINTEXT, TLS, MUTUAL_TLS, SASL_PLAIN, SASL_PLAIN_TLS, SCRAM_256, SCRAM_256_TLS, SCRAM_512, SCRAM_512_TLS, OAUTH,
    OAUTH_TLS,
)  # fmt: skip

# The lab's own doors: brokers among themselves, and our admin client, as the one super user. With ACLs on, all the
# others stay as closed as they would be for a stranger.
INTERNAL = Listener("INTERNAL", "PLAIN")
CONTROLLER = Listener("CONTROLLER", "PLAIN")
SUPER_USER = "lab"


def password(user: str) -> str:
    """Nothing is guarded here, so a password that one can say aloud is the best one."""
    return f"{user}-secret"


@dataclass(frozen=True, slots=True)
class Secrets:
    """What a cluster's listeners need to know: who may come in, and with what."""

    users: tuple[str, ...] = ()
    authority: certificates.Authority | None = None
    oauth: tokens.Endpoints | None = None
    kdc: Kdc | None = None


def broker_properties(listener: Listener, secrets: Secrets) -> dict[str, str]:
    """One listener's part of server.properties."""
    found: dict[str, str] = {}
    if listener.mechanism:
        found["sasl.enabled.mechanisms"] = listener.mechanism
        mechanism = listener.mechanism.lower()
        found[f"{mechanism}.sasl.jaas.config"] = _broker_jaas(listener, secrets)
        if listener.oauth:
            oauth = _oauth(listener, secrets)
            found[f"{mechanism}.sasl.server.callback.handler.class"] = (
                f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            )
            found["sasl.oauthbearer.jwks.endpoint.url"] = oauth.jwks
            found["sasl.oauthbearer.expected.issuer"] = oauth.issuer
            found["sasl.oauthbearer.expected.audience"] = tokens.AUDIENCE
        if listener.kerberos:
            found["sasl.kerberos.service.name"] = _KERBEROS_SERVICE
    if listener.tls:
        authority = _authority(listener, secrets)
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.server().pem),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.ca),
            "ssl.client.auth": "required" if listener.client_certificate else "none",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        }
    return {f"listener.name.{listener.name.lower()}.{key}": value for key, value in found.items()}


def client_properties(listener: Listener, user: str | None, secrets: Secrets) -> dict[str, str]:
    """What a Java client of that listener is given, without the bootstrap servers."""
    found = {"security.protocol": listener.protocol}
    if listener.tls:
        authority = _authority(listener, secrets)
        found |= {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(authority.truststore),
            "ssl.truststore.password": certificates.PASSWORD,
        }
        if listener.client_certificate:
            found |= {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(authority.client(_user(listener, user)).keystore),
                "ssl.keystore.password": certificates.PASSWORD,
                "ssl.key.password": certificates.PASSWORD,
            }
    if listener.mechanism:
        name = _user(listener, user)
        found["sasl.mechanism"] = listener.mechanism
        if listener.oauth:
            found |= {
                "sasl.jaas.config": _jaas("oauthbearer.OAuthBearer", clientId=name, clientSecret=password(name)),
                "sasl.login.callback.handler.class": f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": _oauth(listener, secrets).token,
            }
        elif listener.kerberos:
            found["sasl.kerberos.service.name"] = _KERBEROS_SERVICE
            found["sasl.jaas.config"] = _kerberos(_kdc(listener, secrets), name)
        else:
            module = "scram.Scram" if listener.scram else "plain.Plain"
            found["sasl.jaas.config"] = _jaas(module, username=name, password=password(name))
    return found


def librdkafka_properties(listener: Listener, user: str | None, secrets: Secrets) -> dict[str, str]:
    """The same for librdkafka (confluent-kafka, kcat)."""
    found = {"security.protocol": listener.protocol.lower()}
    if listener.tls:
        authority = _authority(listener, secrets)
        found["ssl.ca.location"] = str(authority.ca)
        if listener.client_certificate:
            files = authority.client(_user(listener, user))
            found["ssl.certificate.location"] = str(files.certificate)
            found["ssl.key.location"] = str(files.key)
    if listener.mechanism:
        name = _user(listener, user)
        found["sasl.mechanism"] = listener.mechanism
        if listener.oauth:
            found |= {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": name,
                "sasl.oauthbearer.client.secret": password(name),
                "sasl.oauthbearer.token.endpoint.url": _oauth(listener, secrets).token,
            }
        elif listener.kerberos:
            raise LabError("librdkafka as it comes by pip knows no GSSAPI")
        else:
            found |= {"sasl.username": name, "sasl.password": password(name)}
    return found


def _broker_jaas(listener: Listener, secrets: Secrets) -> str:
    if listener.scram:
        return _jaas("scram.Scram")  # the users are in the cluster's metadata
    if listener.oauth:
        return _jaas("oauthbearer.OAuthBearer")
    if listener.kerberos:
        return _kerberos(_kdc(listener, secrets), SERVICE)
    users = (SUPER_USER,) if listener in (INTERNAL, CONTROLLER) else secrets.users
    known = {f"user_{user}": password(user) for user in users}
    return _jaas("plain.Plain", username=SUPER_USER, password=password(SUPER_USER), **known)


def _jaas(module: str, **options: str) -> str:
    words = "".join(f' {key}="{value}"' for key, value in options.items())
    return f"{_SECURITY}.{module}LoginModule required{words};"


def _kerberos(realm: Kdc, principal: str) -> str:
    keys = f'useKeyTab="true" storeKey="true" keyTab="{realm.keytab(principal)}" principal="{principal}@{REALM}"'
    return f"com.sun.security.auth.module.Krb5LoginModule required {keys};"


def _user(listener: Listener, user: str | None) -> str:
    if user is None:
        raise LabError(f"listener {listener.name} asks who you are: name a user")
    return user


def _authority(listener: Listener, secrets: Secrets) -> certificates.Authority:
    if secrets.authority is None:
        raise LabError(f"listener {listener.name} needs certificates, and this cluster has none")
    return secrets.authority


def _oauth(listener: Listener, secrets: Secrets) -> tokens.Endpoints:
    if secrets.oauth is None:
        raise LabError(f"listener {listener.name} needs a token issuer, and this cluster has none")
    return secrets.oauth


def _kdc(listener: Listener, secrets: Secrets) -> Kdc:
    if secrets.kdc is None:
        raise LabError(f"listener {listener.name} needs a KDC, and this cluster has none")
    return secrets.kdc
