"""SCRAM by the RFCs' examples, with Kafka's own server class, and with dishonest brokers."""

import base64

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError

from lab.kafka_classes import KafkaJvm
from twinlog.errors import AuthenticationError
from twinlog.security.scram import MAX_ITERATIONS, Scram

# RFC 7677, section 3
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def begun(mechanism: str = "SCRAM-SHA-256") -> Scram:
    exchange = Scram(mechanism, "user", "pencil", nonce=NONCE)
    exchange.first()
    return exchange


def test_the_example_of_rfc_7677() -> None:
    exchange = Scram("SCRAM-SHA-256", "user", "pencil", nonce=NONCE)
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.next(FIRST) == PROOF
    assert exchange.next(FINAL) is None


def test_names_are_escaped_and_tokens_are_marked() -> None:
    assert Scram("SCRAM-SHA-512", "a=b,c", "p", nonce="n").first() == b"n,,n=a=3Db=2Cc,r=n"
    assert Scram("SCRAM-SHA-512", "id", "mac", tokenauth=True, nonce="n").first() == b"n,,n=id,r=n,tokenauth=true"


def test_every_login_has_a_nonce_of_its_own() -> None:
    assert Scram("SCRAM-SHA-256", "u", "p").first() != Scram("SCRAM-SHA-256", "u", "p").first()


@pytest.mark.parametrize(
    ("challenge", "expected", "retriable"),
    [
        (FIRST.replace(b"r=rOpr", b"r=rOpq"), "nonce does not extend the client's", False),
        (b"r=" + NONCE.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce does not extend the client's", False),
        (FIRST.replace(b"i=4096", b"i=4095"), "requests 4095 iterations for user 'user'; set 4096 to 1000000", False),
        (FIRST.replace(b"i=4096", b"i=999999999"), "requests 999999999 iterations", False),
        (FIRST.replace(b"i=4096", b"i=" + b"9" * 5000), "not a SCRAM message", True),
        (FIRST.replace(b"i=4096", b"i=-1"), "not a SCRAM message", True),
        (FIRST.replace(b"gQ==", b"gQ="), "not a SCRAM message", True),
        (b"m=must-know," + FIRST, "not a SCRAM message", True),
        (b"", "not a SCRAM message", True),
        (b"\xff\x00", "not a SCRAM message", True),
        (b"r=" + b"x" * (1 << 17), "too long", True),
        (b"e=unknown-user", "authentication failed for user 'user': unknown-user; check username and password", False),
    ],
)
def test_a_wrong_first_response(challenge: bytes, expected: str, retriable: bool) -> None:
    with pytest.raises(AuthenticationError) as caught:
        begun().next(challenge)
    assert expected in str(caught.value)
    assert caught.value.retriable is retriable


@pytest.mark.parametrize(
    ("challenge", "expected"),
    [
        (b"v=" + base64.b64encode(b"x" * 32), "does not know the password of user 'user'"),
        (b"v=", "does not know the password"),
        (FINAL[:-4], "does not know the password"),
        (b"v=***", "not a SCRAM message"),
        (b"", "not a SCRAM message"),
        (b"e=invalid-proof\nwith\x07noise", "'user': invalid-proof with noise; check"),
    ],
)
def test_a_broker_that_cannot_prove_itself(challenge: bytes, expected: str) -> None:
    exchange = begun()
    exchange.next(FIRST)
    with pytest.raises(AuthenticationError) as caught:
        exchange.next(challenge)
    assert expected in str(caught.value)
    assert "pencil" not in str(caught.value)


def test_extensions_of_the_broker_are_ignored() -> None:
    exchange = begun()
    answer = exchange.next(FIRST + b",x=y")
    assert answer is not None
    assert answer != PROOF  # they are part of what is signed


def test_the_largest_number_of_iterations_is_done_in_seconds() -> None:
    assert begun("SCRAM-SHA-512").next(FIRST.replace(b"i=4096", b"i=%d" % MAX_ITERATIONS))


class Server:
    """Kafka's own ScramSaslServer with one user, in the JVM: what a broker runs."""

    def __init__(self, kafka: KafkaJvm, mechanism: str) -> None:
        self._kafka, self.mechanism = kafka, mechanism
        package = kafka.jvm.org.apache.kafka.common.security.scram.internals
        self._kind = package.ScramMechanism.forMechanismName(mechanism)
        self._formatter = package.ScramFormatter(self._kind)
        self._package = package
        cache = kafka.jvm.org.apache.kafka.common.security.authenticator.CredentialCache()
        self._credentials = cache.createCache(mechanism, kafka._class(SCRAM + "ScramCredential"))
        tokens = kafka.jvm.org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache
        self._tokens = tokens(kafka.jvm.java.util.List.of(mechanism))

    def knows(self, user: str, password: str) -> None:
        self._credentials.put(user, self._formatter.generateCredential(password, 4096))

    def knows_token(self, name: str, secret: str) -> None:
        """A delegation token: its HMAC, in base64, is the password."""
        delegation = self._kafka.jvm.org.apache.kafka.common.security.token.delegation
        owner = self._kafka.jvm.org.apache.kafka.common.security.auth.KafkaPrincipal("User", "alice")
        information = delegation.TokenInformation(
            name, owner, owner, self._kafka.jvm.java.util.List.of(), 0, 1 << 50, 1 << 50
        )
        credential = self._formatter.generateCredential(secret, 4096)
        by_mechanism = self._kafka.jvm.java.util.Map.of(self.mechanism, credential)
        self._tokens.updateCache(delegation.DelegationToken(information, base64.b64decode(secret)), by_mechanism)

    def login(self, exchange: Scram) -> bool:
        handler = self._package.ScramServerCallbackHandler(self._credentials, self._tokens)
        handler.configure(self._kafka.jvm.java.util.HashMap(), self.mechanism, self._kafka.jvm.java.util.List.of())
        server = self._package.ScramSaslServer(self._kind, self._kafka.jvm.java.util.HashMap(), handler)
        token: bytes | None = exchange.first()
        try:
            while token is not None:
                token = exchange.next(bytes(server.evaluateResponse(token)))
        except Py4JJavaError:
            return False
        return bool(server.isComplete())


SCRAM = "org.apache.kafka.common.security.scram."


@pytest.fixture(scope="module", params=["SCRAM-SHA-256", "SCRAM-SHA-512"])
def server(kafka_jvm: KafkaJvm, request: pytest.FixtureRequest) -> Server:
    return Server(kafka_jvm, request.param)


@pytest.mark.java
@given(
    user=st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=1, max_size=12),
    password=st.text(st.characters(codec="utf-8"), min_size=1, max_size=12),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_kafkas_server_accepts_any_name_and_password(server: Server, user: str, password: str) -> None:
    server.knows(user, password)
    assert server.login(Scram(server.mechanism, user, password))


@pytest.mark.java
def test_kafkas_server_rejects_wrong_logins(server: Server) -> None:
    server.knows("user", "pencil")
    assert server.login(Scram(server.mechanism, "user", "pencil"))
    assert not server.login(Scram(server.mechanism, "user", "pencils"))
    assert not server.login(Scram(server.mechanism, "nobody", "pencil"))
    # Kafka accepts only ASCII names here; that is left to the broker, since other brokers may accept more.
    server.knows("jürgen", "pencil")
    assert not server.login(Scram(server.mechanism, "jürgen", "pencil"))


@pytest.mark.java
def test_a_delegation_token_is_accepted_with_tokenauth(server: Server) -> None:
    secret = base64.b64encode(b"an HMAC of the broker's").decode()
    server.knows_token("token-id", secret)
    assert server.login(Scram(server.mechanism, "token-id", secret, tokenauth=True))
    assert not server.login(Scram(server.mechanism, "token-id", secret))
